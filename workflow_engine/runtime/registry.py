"""Workflows as values, and the names an engine knows them by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from workflow_engine.core.commands import WorkflowBody
from workflow_engine.core.identity import check_name
from workflow_engine.core.signature import Parameters, body_result_type
from workflow_engine.errors import DuplicateWorkflow, NotAWorkflow, UnknownWorkflow

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[P, R]):
    """A definition: a name and a generator function, the body.

    Calling it makes a body that has not started, which tests can step by hand and other
    bodies can run with ``yield from``.

    Attributes:
        name: how instances refer to it. Renaming orphans running instances.
        function: the generator function.
    """

    def __init__(
        self, function: Callable[P, WorkflowBody[R]], name: str | None
    ) -> None:
        _check_generator_function(function)
        if name is None:
            name = getattr(function, "__name__", None)
        self.name = check_name(name, "workflow name")
        self.function = function
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowBody[R]:
        """Make a body that has not started.

        Raises:
            NotAWorkflow: the function gave something else.
        """
        body = self.function(*args, **kwargs)
        if not isinstance(body, Generator):
            raise NotAWorkflow(
                name=self.name,
                problem=f"calling it gave {type(body).__name__}, not a generator",
            )
        return body

    @property
    def parameters(self) -> Parameters:
        """How arguments are checked and recorded.

        Raises:
            UnresolvedAnnotation: an annotation names something that does not exist.
        """
        return Parameters.of(self.function)

    @property
    def result_type(self) -> Any:
        """What the body's value is recorded as."""
        return body_result_type(self.function)

    @property
    def where(self) -> str:
        """The module and name of the function, for messages."""
        function = inspect.unwrap(self.function)
        module = getattr(function, "__module__", "?")
        return f"{module}.{getattr(function, '__qualname__', repr(function))}"

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}: {self.where}>"


@overload
def workflow(function: Callable[P, WorkflowBody[R]], /) -> Workflow[P, R]: ...


@overload
def workflow(
    *, name: str | None = None
) -> Callable[[Callable[P, WorkflowBody[R]]], Workflow[P, R]]: ...


def workflow(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None
) -> Any:
    """Make a generator function a workflow: ``@workflow`` or ``@workflow(name="...")``.

    Args:
        name: the stored name; by default the function's own.

    Raises:
        NotAWorkflow: the function is not a generator function (a TypeError too).
        InvalidName: the name is empty, too long, or holds control characters.
    """
    if function is not None:
        return Workflow(function, name)
    return lambda decorated: Workflow(decorated, name)


def _check_generator_function(function: object) -> None:
    name = getattr(function, "__qualname__", repr(function))
    if isinstance(function, Workflow):
        raise NotAWorkflow(name=name, problem="it is a workflow already")
    unwrapped = inspect.unwrap(function) if callable(function) else function
    if inspect.isasyncgenfunction(unwrapped) or inspect.iscoroutinefunction(unwrapped):
        raise NotAWorkflow(name=name, problem="it is async (steps may be, bodies not)")
    if not inspect.isgeneratorfunction(unwrapped):
        raise NotAWorkflow(name=name, problem="it has no yield")


class Registry:
    """The workflows one engine can run, by name."""

    def __init__(self, workflows: Iterable[Workflow[Any, Any]]) -> None:
        self._by_name: dict[str, Workflow[Any, Any]] = {}
        for item in workflows:
            self.add(item)

    def add(self, item: Workflow[Any, Any]) -> None:
        """Make a workflow known.

        Raises:
            NotAWorkflow: it was not made with ``@workflow``.
            DuplicateWorkflow: another one has its name.
        """
        if not isinstance(item, Workflow):
            raise NotAWorkflow(
                name=getattr(item, "__qualname__", repr(item)),
                problem="it was not decorated with @workflow",
            )
        known = self._by_name.setdefault(item.name, item)
        if known is not item:
            raise DuplicateWorkflow(
                workflow=item.name, first=known.where, second=item.where
            )

    def get(self, name: str) -> Workflow[Any, Any]:
        """The workflow of that name.

        Raises:
            UnknownWorkflow: there is none.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownWorkflow(workflow=name) from None

    def find(self, name: str) -> Workflow[Any, Any] | None:
        """The workflow of that name, or None."""
        return self._by_name.get(name)

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self._by_name)

    def __iter__(self) -> Iterator[Workflow[Any, Any]]:
        return iter(self._by_name.values())


def name_of(workflow: Workflow[..., Any] | str) -> str:
    """The name of a workflow, given as itself or by name.

    Raises:
        InvalidName: a name that cannot be one.
        NotAWorkflow: something else, such as the undecorated function.
    """
    if isinstance(workflow, Workflow):
        return workflow.name
    if callable(workflow):
        raise NotAWorkflow(
            name=getattr(workflow, "__qualname__", repr(workflow)),
            problem="it was not decorated with @workflow",
        )
    return check_name(workflow, "workflow name")
