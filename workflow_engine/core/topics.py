"""Names of messages and of timeouts in a journal, and the messages not yet taken.

Frozen: the names are stored.
"""

from __future__ import annotations

from collections import deque

from workflow_engine.core.identity import MESSAGE_PREFIX, TIMEOUT_PREFIX
from workflow_engine.core.ids import joined, parted
from workflow_engine.core.journal import Entry, Kind


def topic_name(topic: str) -> str:
    """Under which a message on a topic is waited for."""
    return MESSAGE_PREFIX + joined(topic)


def message_name(topic: str, key: str) -> str:
    """Under which one message is recorded."""
    return MESSAGE_PREFIX + joined(topic, key)


def timeout_name(wait: str, ordinal: int) -> str:
    """Under which the end of a timed wait is recorded.

    ``ordinal`` counts the timed waits for that name, or topic, in the generation.
    """
    return TIMEOUT_PREFIX + joined(wait, str(ordinal))


def wait_timed_by(name: str) -> str:
    """The name, or topic, whose timed wait `timeout_name` is about."""
    return parted(name.removeprefix(TIMEOUT_PREFIX))[0]


def name_answered(entry: Entry) -> str:
    """The name that an entry answers: of a message, that of its topic."""
    name = entry.name or ""
    return name.rpartition(":")[0] if entry.kind == Kind.MESSAGE else name


class Untaken:
    """The messages that no wait has been answered from, by topic, in order."""

    def __init__(self) -> None:
        self._messages: dict[str, deque[Entry]] = {}

    def put(self, entry: Entry) -> None:
        """Add a message that was recorded after all others of its topic."""
        self._messages.setdefault(name_answered(entry), deque()).append(entry)

    def find_first(self, name: str) -> Entry | None:
        """The first message of a topic, by `topic_name`."""
        messages = self._messages.get(name)
        return messages[0] if messages else None

    def take_first(self, name: str) -> None:
        """The first message of a topic has answered a wait."""
        self._messages[name].popleft()
