"""Ids derived from identities.

Frozen: an id is stored in journals and sent to other systems as an idempotency key. A
changed derivation would make a retry look like new work. ``tests/golden/ids.json`` has
vectors that every later version must meet.

Source of the algorithm: UUID version 5 (RFC 9562, section 5.5) over the UTF-8 bytes of
the parts joined with ``:``. In each part ``%`` is written ``%25`` and ``:`` is written
``%3A``, so that two lists of parts never join to the same text.
"""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5


def joined(*parts: str) -> str:
    """Parts as one text, such that no two lists of parts give the same."""
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def parted(text: str) -> list[str]:
    """The parts that `joined` made a text of."""
    parts = text.split(":")
    return [part.replace("%3A", ":").replace("%25", "%") for part in parts]


def entry_id(
    workflow: str, id: str, generation: int, key: str, superseded: int = 0
) -> str:
    """The id of a journal entry. ``key`` is its step name, or ``#<position>``.

    ``superseded`` counts the earlier entries of that name that no longer stand. If
    there are any, it is a part of its own.
    """
    again = (str(superseded),) if superseded else ()
    name = "keiro:workflow:" + joined(workflow, id, str(generation), key, *again)
    return str(uuid5(NAMESPACE_URL, name))


def idempotency_key(
    incarnation: str, generation: int, step: str, superseded: int
) -> str:
    """The key of a step, the same on every run of it until the step is superseded.

    ``incarnation`` is the random id of the instance row (32 hexadecimal digits), so
    that a collected and reused workflow id never repeats a key.
    """
    return str(
        uuid5(UUID(hex=incarnation), joined(str(generation), step, str(superseded)))
    )


def stream_name(workflow: str, id: str, generation: int) -> str:
    """How a journal is called in listings and traces. Not an identity: it may clash."""
    suffix = f"#{generation}" if generation else ""
    return f"wf:{workflow}-{id}{suffix}"
