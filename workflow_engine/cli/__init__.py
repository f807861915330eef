"""The command line, ``workflow-engine``.

Commands are described in ``docs/cli.md``. Modules in here import no database library
and not the engine until a command runs, so that ``--help`` is quick.
"""

from workflow_engine.cli.root import main

__all__ = ["main"]
