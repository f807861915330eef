"""Where the examples are, and how a test runs or imports them."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import workflow_engine

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def load(name: str) -> ModuleType:
    """Import an example anew."""
    return load_file(EXAMPLES / f"{name}.py")


def load_file(path: Path) -> ModuleType:
    """Import a file anew, wherever it is."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


def environment() -> dict[str, str]:
    """An environment in which a child imports the same workflow_engine as we do."""
    home = str(Path(workflow_engine.__file__).resolve().parents[1])
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PYTHONPATH": home,
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
    }
