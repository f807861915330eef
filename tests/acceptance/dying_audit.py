"""The audit example, unchanged, in a process that dies in the middle of a step.

``dying_audit.py inside 3 [arguments of the example]`` says ``inside verify …`` in the
third verification that it makes, and waits there to be killed. ``dying_audit.py
after_step 3 …`` kills itself after the third step that it performs, before the commit.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from workflow_engine import Engine
from workflow_engine.testing import Crashes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "audit_packages.py"


def load() -> ModuleType:
    """Import the example."""
    spec = importlib.util.spec_from_file_location("audit_packages", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_packages"] = module
    spec.loader.exec_module(module)
    return module


def wait_inside(example: Any, nth: int) -> None:
    """Make the nth verification wait, its work done."""
    verify = example.verify
    calls: list[str] = []

    @functools.wraps(verify)
    def verify_and_wait(found: object, sharing: object) -> object:
        audited = verify(found, sharing)
        calls.append(audited.distribution)
        if len(calls) == nth:
            sys.stdout.write(f"inside verify {audited.distribution}\n")
            sys.stdout.flush()
            sys.stdin.read()
        return audited

    example.verify = verify_and_wait


def main(how: str, nth: str, *arguments: str) -> int:
    """Run the example; it does not get to its end."""
    example: Any = load()
    if how == "inside":
        wait_inside(example, int(nth))
    else:
        crashes = Crashes().at("after_step", nth=int(nth), kill=True)
        example.Engine = functools.partial(Engine, points=crashes)
    code: int = example.main(list(arguments))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
