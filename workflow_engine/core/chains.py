"""Exceptions and what they come from."""

from __future__ import annotations


def chain_of(error: BaseException) -> list[BaseException]:
    """The error and everything in its cause and context chains, each once."""
    seen: dict[int, BaseException] = {}
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen[id(current)] = current
        todo += [current.__context__, current.__cause__]
        if isinstance(current, BaseExceptionGroup):
            todo += current.exceptions
    return list(seen.values())
