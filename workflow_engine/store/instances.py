"""The table ``wf_instances``: one row an instance, the complete ledger.

Its statements are in four rooms: `Ledger` has what they are made of, `Leases` who may
run an instance, `Discovery` what is due, `Progress` the commits of a run. Here is the
rest: how a row comes to be, how it is locked and looked at, and what others than its
run do to it, always under that lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Insert,
    Integer,
    Select,
    Text,
    Update,
    bindparam,
    case,
    func,
    select,
    update,
)

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Key, NewInstance
from workflow_engine.store.ledger import Ledger, Locked, keyed, read, read_each
from workflow_engine.store.unit_of_work import UnitOfWork
from workflow_engine.store.upsert import insert_into


class Instances:
    """Statements about single rows, and their listing."""

    def __init__(self, ledger: Ledger, dialect: str) -> None:
        self._ledger = ledger
        self._table, self._c = ledger.table, ledger.c
        self._dialect = dialect

    # --- coming to be ---

    def insert(
        self,
        work: UnitOfWork,
        key: Key,
        new: NewInstance,
        *,
        owner: str | None = None,
        lease: int | None = None,
        patches: str | None = None,
    ) -> Locked | None:
        """Insert an instance unless it is there, leased if ``owner`` is given.

        The row comes with ``input``.
        """
        row = work.run(
            self._insert,
            workflow_name=key.workflow,
            workflow_id=key.id,
            incarnation=new.incarnation,
            input=new.input,
            tags=write_tags(new.tags),
            patches=patches,
            lease_owner=owner,
            lease_is=lease,
            epoch=0 if owner is None else 1,
            timeout_is=new.timeout,
            deadline_is=new.deadline,
            delay_is=new.delay if new.delay > 0 and owner is None else None,
        ).one_or_none()
        work.woke |= row is not None and owner is None
        return None if row is None else read(row)

    @cached_property
    def _insert(self) -> Insert:
        given = (
            "workflow_name",
            "workflow_id",
            "incarnation",
            "input",
            "tags",
            "patches",
            "lease_owner",
            "epoch",
        )
        now = self._ledger.now
        values = {
            name: bindparam(name, type_=self._c[name].type) for name in given
        } | self._ledger.paced(
            new=True,
            status=Status.RUNNING,
            # Without a duration there is no instant either.
            lease_until=now + bindparam("lease_is", type_=BigInteger),
            next_attempt_at=now + bindparam("delay_is", type_=BigInteger),
            deadline_at=func.coalesce(
                now + bindparam("timeout_is", type_=BigInteger),
                bindparam("deadline_is", type_=BigInteger),
            ),
        )
        statement: Insert = (
            insert_into(self._table, self._dialect)
            .values(values | {"created_at": now, "updated_at": now})
            .on_conflict_do_nothing(index_elements=["workflow_name", "workflow_id"])
            .returning(*self._ledger.row, self._c.input)
        )
        return statement

    # --- looking ---

    def find(
        self, work: UnitOfWork, key: Key, *, payloads: bool = False
    ) -> Locked | None:
        """The row, without a lock."""
        statement = self._find_whole if payloads else self._find
        row = work.run(statement, **keyed(key)).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _find(self) -> Select[Any]:
        return select(*self._ledger.row).where(*self._ledger.has_key)

    @cached_property
    def _find_whole(self) -> Select[Any]:
        return self._find.add_columns(self._c.input, self._c.result)

    def lock(
        self, work: UnitOfWork, key: Key, *, payloads: bool = False
    ) -> Locked | None:
        """Lock the row by its key."""
        statement = self._lock_whole if payloads else self._lock
        row = work.run(statement, **keyed(key)).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _lock(self) -> Select[Any]:
        return self._find.with_for_update()

    @cached_property
    def _lock_whole(self) -> Select[Any]:
        return self._find_whole.with_for_update()

    def lock_by_id(self, work: UnitOfWork, instance: int) -> Locked | None:
        """Lock the row by its number; it comes with payloads."""
        row = work.run(self._lock_by_id, instance_is=instance).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _lock_by_id(self) -> Select[Any]:
        return self._find_by_id.with_for_update()

    def lock_free(self, work: UnitOfWork, instances: Sequence[int]) -> list[Locked]:
        """Lock the rows that nobody else has locked, in the order of their numbers."""
        rows = work.run(self._lock_free, instances_are=list(instances))
        return [read(row) for row in rows]

    @cached_property
    def _lock_free(self) -> Select[Any]:
        these = self._c.id.in_(bindparam("instances_are", expanding=True))
        return (
            select(*self._ledger.row)
            .where(these)
            .order_by(self._c.id)
            .with_for_update(skip_locked=True)
        )

    def find_by_id(self, work: UnitOfWork, instance: int) -> Locked | None:
        """The row by its number, with payloads, without a lock."""
        row = work.run(self._find_by_id, instance_is=instance).one_or_none()
        return None if row is None else read(row)

    @cached_property
    def _find_by_id(self) -> Select[Any]:
        payloads = (self._c.input, self._c.result)
        this = self._c.id == bindparam("instance_is")
        return select(*self._ledger.row, *payloads).where(this)

    def list(
        self,
        work: UnitOfWork,
        *,
        statuses: Collection[Status] | None,
        workflow: str | None,
        prefix: str | None,
        tags: Mapping[str, str],
        after: int | None,
        limit: int,
    ) -> tuple[list[Locked], dict[int, str]]:
        """A page of rows by ascending number, and those of it that cannot be read, with
        why. Reads no payloads."""
        c = self._c
        page = select(*self._ledger.row).order_by(c.id).limit(limit)
        if after is not None:
            page = page.where(c.id > after)
        if statuses is not None:
            page = page.where(c.status.in_([each.value for each in statuses]))
        if workflow is not None:
            page = page.where(c.workflow_name == workflow)
        if prefix:
            page = page.where(*begins_with(c.workflow_id, prefix))
        for tag in sorted(tags.items()):
            page = page.where(self._has_tag(*tag))
        return read_each(work.connection.execute(page))

    def _has_tag(self, tag: str, value: str) -> ColumnElement[bool]:
        find = func.instr if self._dialect == "sqlite" else func.strpos
        return find(self._c.tags, tag_line(tag, value)) > 0

    # --- changing, under the lock ---

    def wake(self, work: UnitOfWork, row: Locked, count: int = 1) -> Locked:
        """Add entries that wake: a suspended instance may be claimed at once."""
        work.woke = True
        return self._change(work, self._wake, row, count_is=count)

    @cached_property
    def _wake(self) -> Update:
        count = bindparam("count_is", type_=Integer)
        return self._changing(count, **self._ledger.paced(wake_after=self._woken))

    @property
    def _woken(self) -> ColumnElement[int]:
        """When an instance wakes that has something to do: now, if it is suspended."""
        c, now = self._c, self._ledger.now
        earlier = case((c.wake_after < now, c.wake_after), else_=now)
        suspended = c.status == Status.SUSPENDED.value
        return case((suspended, earlier), else_=c.wake_after)

    def wake_at(self, work: UnitOfWork, row: Locked, instant: int | None) -> Locked:
        """Say when the first of its timers is due."""
        work.woke |= instant is not None
        return self._change(work, self._wake_at, row, wake_is=instant)

    @cached_property
    def _wake_at(self) -> Update:
        wake_after = bindparam("wake_is", type_=BigInteger)
        return self._changing(0, **self._ledger.paced(wake_after=wake_after))

    def request_cancel(self, work: UnitOfWork, row: Locked) -> Locked:
        """Set the flag. It may be claimed at once, unless it is leased or blocked."""
        work.woke = True
        return self._change(work, self._request_cancel, row)

    @cached_property
    def _request_cancel(self) -> Update:
        # Neither a delay nor the pause after a crash is waited for: there is one
        # request, so it shortens one pause. Who cannot read it gains nothing by haste.
        blocked = self._c.status == Status.BLOCKED.value
        changes = self._ledger.paced(
            wake_after=self._woken,
            next_attempt_at=case((blocked, self._c.next_attempt_at)),
            cancel_requested=True,
        )
        return self._changing(0, **changes)

    def cancel(self, work: UnitOfWork, row: Locked) -> Locked:
        """Add the marker and end the instance, whoever holds its lease."""
        return self._change(work, self._cancel, row)

    @cached_property
    def _cancel(self) -> Update:
        return self._changing(1, **self._ledger.ended(Status.CANCELLED))

    def give_up(self, work: UnitOfWork, row: Locked, error: str) -> Locked:
        """Count a takeover and end the instance as failed."""
        return self._change(work, self._give_up, row, error_is=error)

    @cached_property
    def _give_up(self) -> Update:
        changes = self._ledger.ended(
            Status.FAILED,
            last_error=bindparam("error_is", type_=Text),
            takeovers=self._c.takeovers + 1,
        )
        return self._changing(1, **changes)

    def fail(self, work: UnitOfWork, row: Locked, error: str) -> Locked:
        """Add the marker and end the instance as failed, whoever holds its lease."""
        return self._change(work, self._fail, row, error_is=error)

    @cached_property
    def _fail(self) -> Update:
        error = bindparam("error_is", type_=Text)
        return self._changing(1, **self._ledger.ended(Status.FAILED, last_error=error))

    def revive(
        self, work: UnitOfWork, row: Locked, *, cancel_requested: bool
    ) -> Locked:
        """Make it runnable, as if nothing had been tried. A deadline that has passed is
        one no more."""
        work.woke = True
        return self._change(work, self._revive, row, requested_is=cancel_requested)

    @cached_property
    def _revive(self) -> Update:
        changes = self._ledger.paced(
            status=Status.RUNNING,
            next_attempt_at=None,
            wake_after=None,
            ended_at=None,
            deadline_at=case((self._ledger.is_in_time, self._c.deadline_at)),
            cancel_requested=bindparam(
                "requested_is", type_=self._c.cancel_requested.type
            ),
            **self._ledger.released,
            **self._ledger.progressed,
        )
        return self._changing(1, **changes)

    def fence(self, work: UnitOfWork, row: Locked) -> Locked:
        """Shut out whoever has read the journal under an earlier lease."""
        return self._change(work, self._fence, row)

    @cached_property
    def _fence(self) -> Update:
        return self._changing(0, epoch=self._c.epoch + 1)

    def _changing(self, count: int | BindParameter[int], **changes: Any) -> Update:
        c = self._c
        return (
            update(self._table)
            .where(c.id == bindparam("instance_is"))
            .values(position=c.position + count, updated_at=self._ledger.now, **changes)
            .returning(*self._ledger.row)
        )

    @staticmethod
    def _change(
        work: UnitOfWork, statement: Update, row: Locked, **parameters: Any
    ) -> Locked:
        instance = row.instance.instance
        return read(work.run(statement, instance_is=instance, **parameters).one())


def write_tags(tags: Mapping[str, str]) -> str:
    """Tags as a JSON object with one tag a line, by which `tag_line` finds one."""
    return json.dumps(dict(tags), sort_keys=True, indent=0)


def tag_line(tag: str, value: str) -> str:
    """The text that `write_tags` writes for a tag, and nowhere else.

    JSON escapes every line break inside a string, so a raw one begins a pair.
    """
    return f"\n{json.dumps(tag)}: {json.dumps(value)}"


def begins_with(
    column: ColumnElement[str], prefix: str
) -> Sequence[ColumnElement[bool]]:
    """The condition that text begins with ``prefix``, as a range of an index.

    LIKE would read ``_`` and ``%``, and on SQLite ignore case. Bytes of UTF-8 sort as
    code points do.
    """
    conditions = [column >= prefix]
    stem = prefix.rstrip(chr(0x10FFFF))
    if stem:
        last = ord(stem[-1]) + 1
        # There are no characters from D800 to DFFF, and no UTF-8 for them.
        following = chr(0xE000) if last == 0xD800 else chr(last)
        conditions.append(column < stem[:-1] + following)
    return conditions
