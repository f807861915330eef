"""``python -m workflow_engine`` is ``workflow-engine``."""

from workflow_engine.cli import main

main()
