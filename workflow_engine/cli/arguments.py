"""A workflow's arguments, read from a command line.

Each value is read as JSON, and decoded by the annotation of its parameter. Text that is
not JSON, or whose JSON does not fit the parameter, is taken as text: ``1001`` is a
number for a parameter declared int, and text for one declared str.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import attrs
import click

from workflow_engine.cli.options import split_pairs
from workflow_engine.errors import InvalidInput, ValueProblem

if TYPE_CHECKING:
    from workflow_engine.runtime.registry import Workflow


Command = TypeVar("Command", bound=Callable[..., Any])


def call_options(command: Command) -> Command:
    """Add TARGET, ID, ARGS, ``--arg`` and ``--input``.

    The command takes ``target``, ``id``, ``arguments``, ``named`` and ``file``.
    """
    decorators = (
        click.argument("target"),
        click.argument("id"),
        click.argument("arguments", nargs=-1, metavar="[ARGS]..."),
        click.option(
            "--arg",
            "named",
            multiple=True,
            metavar="NAME=JSON",
            help="An argument by its parameter's name. May be repeated.",
        ),
        click.option(
            "--input",
            "file",
            type=click.File("r", encoding="utf-8"),
            help="A file with a JSON object of arguments by name; - is standard input.",
        ),
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@attrs.define
class _Given:
    """A value as it was given.

    Attributes:
        json: what it is read as.
        text: what it may yet be taken as.
        problem: why it did not fit as JSON.
    """

    json: Any
    text: str | None = None
    problem: ValueProblem | None = None

    @classmethod
    def read(cls, text: str) -> _Given:
        try:
            return cls(parse_json(text), text)
        except ValueError:
            return cls(text)


def parse_json(text: str) -> Any:
    """Read JSON as the standard has it: no NaN, no Infinity.

    Raises:
        ValueError: it is not JSON.
    """
    return json.loads(text, parse_constant=_refuse_constant)


def parse_value(text: str) -> Any:
    """Read JSON, or take what is not JSON as text."""
    return _Given.read(text).json


def read_arguments(
    workflow: Workflow[..., Any],
    positional: Sequence[str],
    pairs: Iterable[str],
    file: TextIO | None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values to call a workflow with.

    Args:
        positional: texts, in the order of the parameters.
        pairs: texts like ``name=value``.
        file: holds a JSON object by parameter name, which is never taken as text.

    Returns:
        Positional and keyword arguments; nothing is filled in from defaults.

    Raises:
        BadParameter: a parameter was given twice.
        InvalidInput: they do not fit the workflow's parameters.
    """
    named = split_pairs(pairs, "NAME")
    by_name = {} if file is None else _read_input(file)
    twice = named.keys() & by_name.keys()
    if twice:
        raise click.BadParameter(f"{', '.join(sorted(twice))} is given twice")
    keywords = {name: _Given.read(text) for name, text in named.items()}
    keywords |= {name: _Given(value) for name, value in by_name.items()}
    values = [_Given.read(text) for text in positional]
    if not values and not keywords:
        return (), {}
    signature = inspect.signature(workflow.function)
    try:
        bound = signature.bind_partial(*values, **keywords).arguments
    except TypeError as error:
        problem = f"{error}; it takes {signature}"
        raise InvalidInput(workflow=workflow.name, problem=problem) from None
    args, kwargs = _decode(workflow, bound)
    decoded = signature.bind(*args, **kwargs).arguments
    given = {name: decoded[name] for name in bound}
    only = inspect.BoundArguments(signature, given)
    return only.args, only.kwargs


def _read_input(file: TextIO) -> dict[str, Any]:
    try:
        found = parse_json(file.read())
    except ValueError as error:
        raise click.BadParameter(f"{file.name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f"{file.name} holds no object of arguments by name")
    return found


def _decode(
    workflow: Workflow[..., Any], bound: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    from workflow_engine.core.codec import Codec

    codec, parameters, leaves = Codec(), workflow.parameters, _leaves(bound)
    while True:
        try:
            return parameters.decode(codec, json.dumps(_plain(bound)))
        except ValueProblem as problem:
            leaf = _find_leaf(leaves, problem.path)
            if leaf is None or leaf.text is None:
                told = leaf.problem if leaf is not None and leaf.problem else problem
                raise _invalid(workflow, told) from None
            # Should the text not fit either, this is what is told.
            leaf.problem = problem
            leaf.json, leaf.text = leaf.text, None


def _leaves(bound: Mapping[str, Any]) -> dict[str, _Given]:
    """The given values by their path, as the codec writes it."""
    from workflow_engine.core.carriers.carrier import step_into

    found: dict[str, _Given] = {}
    for name, value in bound.items():
        path = f"$.{name}"
        if isinstance(value, _Given):
            found[path] = value
        elif isinstance(value, tuple):
            found |= {f"{path}[{index}]": each for index, each in enumerate(value)}
        else:
            found |= {path + step_into(key): each for key, each in value.items()}
    return found


def _find_leaf(leaves: Mapping[str, _Given], path: str) -> _Given | None:
    for place, leaf in leaves.items():
        if path == place or path.startswith((f"{place}.", f"{place}[")):
            return leaf
    return None


def _plain(value: Any) -> Any:
    match value:
        case _Given():
            return value.json
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return {name: _plain(each) for name, each in value.items()}


def _invalid(workflow: Workflow[..., Any], found: ValueProblem) -> InvalidInput:
    where = f"parameter {found.path[2:]}" if found.path != "$" else "the arguments"
    problem = f"{where}: expected {found.expected}: {found.problem}"
    return InvalidInput(workflow=workflow.name, problem=problem)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
