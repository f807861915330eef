"""The table ``wf_messages``: what was sent, as far as a journal does not say it.

A message lives in the journal of its receiver. Here is a row for each key that a sender
gave, so that it counts once in all generations; and for each message to an instance
that has failed, which is owed it until a resurrection.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import Insert, Select, Update, bindparam, null, select, update

from workflow_engine.core.rows import Message
from workflow_engine.store.now import now_in
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.upsert import insert_into


class Messages:
    """Statements of ``wf_messages``. They want the instance's row locked."""

    def __init__(self, tables: Tables, dialect: str) -> None:
        self._table = tables.messages
        self._c = tables.messages.c
        self._dialect = dialect
        self._now = now_in(dialect)

    def note(
        self, work: UnitOfWork, instance: int, message: Message, *, owed: bool
    ) -> bool:
        """Add a row; False if the instance has been sent this key before."""
        row = work.run(
            self._note,
            instance_id=instance,
            message_key=message.key,
            topic=message.topic,
            payload=message.payload if owed else None,
        )
        return row.one_or_none() is not None

    @cached_property
    def _note(self) -> Insert:
        names = ("instance_id", "message_key", "topic", "payload")
        given: dict[str, Any] = {
            name: bindparam(name, type_=self._c[name].type) for name in names
        }
        statement: Insert = (
            insert_into(self._table, self._dialect)
            .values(given | {"sent_at": self._now})
            .on_conflict_do_nothing(index_elements=["instance_id", "message_key"])
            .returning(self._c.id)
        )
        return statement

    def is_noted(self, work: UnitOfWork, instance: int, message: Message) -> bool:
        """Whether the instance has been sent the key of a message before."""
        if not message.is_keyed:
            return False
        row = work.run(self._is_noted, instance_is=instance, key_is=message.key)
        return row.one_or_none() is not None

    @cached_property
    def _is_noted(self) -> Select[Any]:
        this = self._c.instance_id == bindparam("instance_is")
        return select(self._c.id).where(
            this, self._c.message_key == bindparam("key_is")
        )

    def take_owed(self, work: UnitOfWork, instance: int) -> list[Message]:
        """What an instance is owed, in the order it was sent; it is owed no more."""
        rows = work.run(self._owed, instance_is=instance).all()
        if rows:
            work.run(self._deliver, instance_is=instance)
        return [Message(row.topic, row.payload, row.message_key, True) for row in rows]

    @cached_property
    def _owed(self) -> Select[Any]:
        return select(*self._c).where(*self._are_owed).order_by(self._c.id)

    @cached_property
    def _deliver(self) -> Update:
        return update(self._table).where(*self._are_owed).values(payload=null())

    @cached_property
    def _are_owed(self) -> tuple[Any, ...]:
        this = self._c.instance_id == bindparam("instance_is")
        return (this, self._c.payload.is_not(None))
