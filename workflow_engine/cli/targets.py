"""TARGET on a command line: a workflow in a module or in a file.

``module:attribute`` or ``path/to/file.py:attribute``; the attribute may be left out
where it is clear. The current directory comes first on ``sys.path``. A file is imported
under the name that an import statement would use, with the directory of its top-level
package on ``sys.path`` too; so its classes have the same names either way, and are
found again by whoever looks them up in ``sys.modules``.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import click

from workflow_engine.cli.report import Trouble, is_debugging

if TYPE_CHECKING:
    from workflow_engine.runtime.registry import Workflow


@attrs.frozen
class Target:
    """What a TARGET led to.

    Attributes:
        workflow: the one that is meant; None when there are several and none was named.
        all: every workflow in the module, those that it imported too.
    """

    text: str
    workflow: Workflow[..., Any] | None
    all: tuple[Workflow[..., Any], ...]

    def get_workflow(self) -> Workflow[..., Any]:
        """The one that is meant.

        Raises:
            UsageError: it is not clear which.
        """
        if self.workflow is None:
            names = ", ".join(sorted(found.function.__name__ for found in self.all))
            raise click.UsageError(
                f"which one in {self.text}? Add :NAME, one of {names}"
            )
        return self.workflow


def load_target(text: str) -> Target:
    """Import the module of a target and find its workflows.

    Raises:
        UsageError: no such file, module or attribute, or no workflow there.
        Trouble: the module raised an error.
    """
    place, _, attribute = text.partition(":")
    _put_first(Path.cwd())
    is_path = place.endswith(".py") or "/" in place
    module = _import_file(Path(place)) if is_path else _import(place, place)
    everything = _workflows_in(module)
    if attribute:
        picked = _pick(module, text, attribute)
        others = [found for found in everything if found is not picked]
        return Target(text, picked, (picked, *others))
    if not everything:
        raise click.UsageError(f"there is no workflow in {text}")
    own = [
        found for found in everything if found.function.__module__ == module.__name__
    ]
    candidates = own or everything
    return Target(text, candidates[0] if len(candidates) == 1 else None, everything)


def all_workflows(targets: Iterable[Target]) -> list[Workflow[..., Any]]:
    """The workflows of several targets, each once."""
    found = {id(each): each for target in targets for each in target.all}
    return list(found.values())


def _import_file(path: Path) -> ModuleType:
    path = path.absolute()
    if path.suffix != ".py" or not path.is_file():
        raise click.UsageError(f"there is no Python file {path}")
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    if "." in path.stem:
        raise click.UsageError(
            f"{path.name} cannot be imported: it has a dot in its name"
        )
    _put_first(root)
    name = ".".join(parts)
    module = _import(name, str(path))
    origin = getattr(module, "__file__", None)
    if origin is None or not Path(origin).samefile(path):
        raise click.UsageError(
            f"the module name {name!r} of {path} is taken by {origin or 'a builtin'}; "
            "rename the file"
        )
    return module


def _import(name: str, shown: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise click.UsageError(f"there is no module {missing!r}") from None
        raise _broken(error, shown) from error
    except Exception as error:
        raise _broken(error, shown) from error


def _broken(error: Exception, shown: str) -> Exception:
    if is_debugging():
        return error
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f" ({last.filename}, line {last.lineno})"
    if isinstance(error, SyntaxError) or "importlib" in last.filename:
        where = ""  # the message says it, or there is no line to show
    return Trouble(f"cannot load {shown}: {type(error).__name__}: {error}{where}")


def _workflows_in(module: ModuleType) -> tuple[Workflow[..., Any], ...]:
    from workflow_engine.runtime.registry import Workflow

    found = {
        id(value): value
        for value in vars(module).values()
        if isinstance(value, Workflow)
    }
    return tuple(found.values())


def _pick(module: ModuleType, text: str, attribute: str) -> Workflow[..., Any]:
    from workflow_engine.runtime.registry import Workflow

    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Workflow):
        return found
    names = [n for n, value in vars(module).items() if isinstance(value, Workflow)]
    advice = f"it has {', '.join(sorted(names))}" if names else "it has none"
    problem = (
        "there is none" if found is None else "it was not decorated with @workflow"
    )
    raise click.UsageError(f"{text} is not a workflow: {problem}; {advice}")


def _put_first(directory: Path) -> None:
    text = str(directory)
    if not sys.path or sys.path[0] != text:
        sys.path.insert(0, text)
