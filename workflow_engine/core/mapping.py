"""One piece of work for each of many items, side by side: `map_each`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

import attrs

from workflow_engine.core.commands import Step, WorkflowBody
from workflow_engine.core.compounds import AllOf
from workflow_engine.errors import MapFailed

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@attrs.frozen
class MapResult(Generic[R_co]):
    """What came of each item, by its key, in the order of the items.

    Attributes:
        succeeded: the values.
        failed: the errors that were tolerated.
        skipped: the keys of items that were not begun, or not waited for, since enough
            had succeeded or too many had failed.
    """

    succeeded: dict[str, R_co]
    failed: dict[str, Exception]
    skipped: tuple[str, ...]

    @property
    def values(self) -> list[R_co]:
        """The values of what succeeded."""
        return list(self.succeeded.values())


@overload
def map_each(
    name: str,
    items: Iterable[T],
    work: Callable[[T], Generator[Any, Any, R]],
    *,
    key: Callable[[T], str] | None = ...,
    max_in_flight: int | None = ...,
    tolerate: int | None = ...,
    at_least: int | None = ...,
) -> WorkflowBody[MapResult[R]]: ...


@overload
def map_each(
    name: str,
    items: Iterable[T],
    work: Callable[[T], Coroutine[Any, Any, R]],
    *,
    key: Callable[[T], str] | None = ...,
    max_in_flight: int | None = ...,
    tolerate: int | None = ...,
    at_least: int | None = ...,
) -> WorkflowBody[MapResult[R]]: ...


@overload
def map_each(
    name: str,
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    key: Callable[[T], str] | None = ...,
    max_in_flight: int | None = ...,
    tolerate: int | None = ...,
    at_least: int | None = ...,
) -> WorkflowBody[MapResult[R]]: ...


def map_each(
    name: str,
    items: Iterable[T],
    work: Callable[[T], Any],
    *,
    key: Callable[[T], str] | None = None,
    max_in_flight: int | None = None,
    tolerate: int | None = 0,
    at_least: int | None = None,
) -> WorkflowBody[MapResult[Any]]:
    """Do something for each item, side by side::

        result = yield from map_each("resize", pictures, resize, key=name_of)

    What succeeded, failed or was skipped is decided in the order of the journal, so a
    replay finds the same.

    Args:
        name: the steps are called by it and the key of their item.
        items: anything that is the same on a replay.
        work: a step function of one item, sync or async; or a generator function, which
            runs as a branch and names its steps itself.
        key: unique among the items. Without one it is the item, if that is text or a
            whole number, else its place, from 0.
        max_in_flight: how many at a time at most; all by default.
        tolerate: how many may fail; None for any number. One more cancels the rest.
        at_least: so many successes are enough, and cancel the rest. Without it, all
            that do not fail are waited for.

    Raises:
        ValueError: at the first step: a number that is none, or a key twice.
        MapFailed: at the yield: more failed than is tolerated, or too few succeeded.
            Its cause is the last error.
    """
    for what, count in (("max_in_flight", max_in_flight), ("at_least", at_least)):
        if count is not None and count < 1:
            raise ValueError(f"map_each {name!r}: {what} must be above 0, not {count}")
    if tolerate is not None and tolerate < 0:
        raise ValueError(f"map_each {name!r}: tolerate cannot be {tolerate}")
    keyed = _keyed(name, items, key)
    run = _Mapping(name, keyed, work, tolerate, at_least)
    lanes = min(len(keyed), max_in_flight or len(keyed))
    with contextlib.suppress(_Stop):
        yield AllOf([run.lane() for _ in range(lanes)])
    return run.result()


class _Stop(Exception):
    """Ends all lanes. Raised in one, so that the others are cancelled."""


class _Mapping:
    """One `map_each` at work: lanes take the next item when they are free."""

    def __init__(
        self,
        name: str,
        items: dict[str, Any],
        work: Callable[[Any], Any],
        tolerate: int | None,
        at_least: int | None,
    ) -> None:
        self._name = name
        self._items = items
        self._work = work
        self._tolerate = tolerate
        self._at_least = at_least
        self._next: Iterator[tuple[str, Any]] = iter(items.items())
        self._succeeded: dict[str, Any] = {}
        self._failed: dict[str, Exception] = {}
        self._last: Exception | None = None

    def lane(self) -> WorkflowBody[None]:
        for key, item in self._next:
            try:
                self._succeeded[key] = yield from self._do(key, item)
            except Exception as error:  # noqa: BLE001 - the result says what it was
                self._failed[key] = self._last = error
            if self._is_over:
                raise _Stop

    def _do(self, key: str, item: Any) -> WorkflowBody[Any]:
        if inspect.isgeneratorfunction(self._work):
            return (yield from self._work(item))
        return (yield from Step(f"{self._name} {key}", self._work, item))

    @property
    def _has_failed(self) -> bool:
        return self._tolerate is not None and len(self._failed) > self._tolerate

    @property
    def _is_over(self) -> bool:
        wanted = self._at_least
        enough = wanted is not None and len(self._succeeded) >= wanted
        return enough or self._has_failed

    def result(self) -> MapResult[Any]:
        succeeded = self._in_order(self._succeeded)
        failed = self._in_order(self._failed)
        ended = succeeded.keys() | failed.keys()
        skipped = tuple(key for key in self._items if key not in ended)
        result = MapResult(succeeded, failed, skipped)
        missing = (self._at_least or 0) - len(succeeded)
        if self._has_failed or missing > 0:
            raise MapFailed(
                name=self._name,
                failed=len(failed),
                succeeded=len(succeeded),
                skipped=len(skipped),
                result=result,
            ) from self._last
        return result

    def _in_order(self, found: dict[str, Any]) -> dict[str, Any]:
        return {key: found[key] for key in self._items if key in found}


def _keyed(
    name: str, items: Iterable[T], key: Callable[[T], str] | None
) -> dict[str, T]:
    keyed: dict[str, T] = {}
    for place, item in enumerate(items):
        if key is not None:
            found = key(item)
        else:
            found = str(item if isinstance(item, str | int) else place)
        if found in keyed:
            raise ValueError(f"map_each {name!r}: two items have the key {found!r}")
        keyed[found] = item
    return keyed
