"""What finds what is wrong, each an invariant turned round.

Those of a page look at the instances of one status whose numbers lie in a range; the
others go through an index that holds little else than what they look for.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Exists,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    true,
    union_all,
)

from workflow_engine.core.identity import (
    AWAKEABLE_PREFIX,
    CHILD_PREFIX,
    RETRY_PREFIX,
    SLEEP_PREFIX,
)
from workflow_engine.core.lifecycle import ENDED, Status
from workflow_engine.core.rows import AwakeableStatus
from workflow_engine.store.ledger import Ledger
from workflow_engine.store.tables import Tables
from workflow_engine.store.unit_of_work import UnitOfWork

_LIVE = text("live")
_TOLERANCE = 1_000_000
"""A second: what another session has just committed may lie ahead of our time."""

_SOURCED = (SLEEP_PREFIX, RETRY_PREFIX, AWAKEABLE_PREFIX, CHILD_PREFIX)
"""Names of waits that a row of another table answers. Anybody may answer others."""


class Findings:
    """Statements about invariants."""

    def __init__(self, tables: Tables, ledger: Ledger, dialect: str) -> None:
        self._tables = tables
        self._ledger = ledger
        self._dialect = dialect
        self._c = ledger.c

    # --- a page of instances ---

    def find_last(
        self, work: UnitOfWork, status: Status, after: int, limit: int
    ) -> int | None:
        """The number of the last instance of the next page; None if it is empty."""
        last: int | None = work.run(
            self._find_last, status_is=status.value, after_is=after, limit_is=limit
        ).scalar_one()
        return last

    @cached_property
    def _find_last(self) -> Select[Any]:
        c = self._c
        page = (
            select(c.id)
            .where(c.status == bindparam("status_is"), c.id > bindparam("after_is"))
            .order_by(c.id)
            .limit(_limit())
            .subquery()
        )
        return select(func.max(page.c.id))

    @cached_property
    def out_of_sight(self) -> Select[Any]:
        """Rows that workers find at another time than the rest of the row says."""
        return self._of_page(*self._sight).where(self._is_out_of_sight)

    @cached_property
    def _sight(self) -> tuple[ColumnElement[Any], ...]:
        right = self._ledger.paced()["runnable_at"]
        return (self._c.runnable_at.label("found_at"), right.label("right_at"))

    @cached_property
    def _is_out_of_sight(self) -> ColumnElement[bool]:
        found, right = self._c.runnable_at, self._ledger.paced()["runnable_at"]
        return or_(
            found.is_(None) != right.is_(None), func.abs(found - right) > _TOLERANCE
        )

    @cached_property
    def blocked(self) -> Select[Any]:
        """All of the page, with why."""
        return self._of_page(self._c.last_error)

    @cached_property
    def leases_left(self) -> Select[Any]:
        """Leases that ran out long ago and were not taken over."""
        c = self._c
        owner, until = c.lease_owner.label("owner"), c.lease_until.label("until_at")
        return self._of_page(owner, until).where(
            c.lease_owner.is_not(None), c.lease_until < self._long_ago
        )

    @cached_property
    def broken_journals(self) -> Select[Any]:
        """Journals that are not the positions from 1 to the one in the row."""
        c, j = self._c, self._tables.journal.c
        count, last = func.count(j.position), func.coalesce(func.max(j.position), 0)
        first = func.coalesce(func.min(j.position), 1)
        mine = and_(*self._belongs(j.instance_id, j.generation))
        return (
            self._of_page(c.position, count.label("entries"), last.label("last"))
            .outerjoin_from(self._ledger.table, self._tables.journal, mine)
            .group_by(c.id)
            .having(or_(count != c.position, last != c.position, first != 1))
        )

    @cached_property
    def lost_wakes(self) -> Select[Any]:
        """Suspended for good, on a name that the journal answers."""
        waits = self._waits
        return (
            self._of_page(func.min(waits.c.value).label("wait"))
            .select_from(self._ledger.table.join(waits, true()))
            .where(self._c.wake_after.is_(None), self._is_recorded(waits.c.value))
            .group_by(self._c.id)
        )

    @cached_property
    def unwakeable(self) -> Select[Any]:
        """Suspended for good, on names that nothing is left to answer."""
        c, waits = self._c, self._waits
        wakeable = (
            select(literal(1))
            .select_from(waits)
            .where(or_(self._is_recorded(waits.c.value), *self._may_come(waits)))
            .correlate(self._ledger.table)
        )
        return self._of_page(c.waits_on).where(
            c.wake_after.is_(None), c.waits_on.is_not(None), ~wakeable.exists()
        )

    def _may_come(self, waits: Any) -> list[ColumnElement[bool]]:
        """What may yet answer the name of a wait of the instance."""
        name = waits.c.value
        t, a, k = (
            self._tables.timers.c,
            self._tables.awakeables.c,
            self._tables.children.c,
        )
        child = self._ledger.table.alias("child")
        anybody = and_(*(func.substr(name, 1, len(p)) != p for p in _SOURCED))
        timer = exists().where(
            *self._belongs(t.instance_id, t.generation),
            t.step_name == name,
            t.settled_at.is_(None),
        )
        awakeable = exists().where(
            *self._belongs(a.instance_id, a.generation),
            literal(AWAKEABLE_PREFIX, Text) + a.label == name,
        )
        spawned = exists().where(
            *self._belongs(k.parent_id, k.generation),
            k.step_name == name,
            child.c.id == k.child_id,
        )
        return [
            anybody,
            timer.correlate_except(self._tables.timers),
            awakeable.correlate_except(self._tables.awakeables),
            spawned.correlate_except(self._tables.children, child),
        ]

    @cached_property
    def late_wakes(self) -> Select[Any]:
        """Suspended until a later time than that of the earliest timer."""
        c, t = self._c, self._tables.timers.c
        due = func.min(t.due_at)
        return (
            self._of_page(c.wake_after.label("wake_at"), due.label("due_at"))
            .join_from(
                self._ledger.table,
                self._tables.timers,
                and_(*self._belongs(t.instance_id, t.generation)),
            )
            .where(t.settled_at.is_(None))
            .group_by(c.id)
            .having(or_(c.wake_after.is_(None), c.wake_after > due))
        )

    @cached_property
    def untold_awakeables(self) -> Select[Any]:
        """Awakeables that were settled, without an entry that says so."""
        a = self._tables.awakeables.c
        return (
            self._of_page(a.label, a.status, a.settled_at)
            .join_from(
                self._ledger.table,
                self._tables.awakeables,
                and_(*self._belongs(a.instance_id, a.generation)),
            )
            .where(a.status != AwakeableStatus.PENDING.value)
            .where(~self._is_recorded(literal(AWAKEABLE_PREFIX, Text) + a.label))
        )

    @cached_property
    def untold_children(self) -> Select[Any]:
        """Children that have ended, without an entry of the parent that says so."""
        k = self._tables.children.c
        child = self._ledger.table.alias("child")
        return (
            self._of_page(
                child.c.workflow_name.label("child_workflow"),
                child.c.workflow_id.label("child_id"),
                child.c.status,
                child.c.ended_at,
            )
            .select_from(
                self._ledger.table.join(
                    self._tables.children,
                    and_(*self._belongs(k.parent_id, k.generation)),
                ).join(child, child.c.id == k.child_id)
            )
            .where(
                child.c.status.in_(_values(ENDED)),
                # Who was asked to end is not told that a child was cancelled.
                ~and_(
                    self._c.cancel_requested,
                    child.c.status == Status.CANCELLED.value,
                ),
                ~self._is_recorded(k.step_name),
            )
        )

    @cached_property
    def untold_messages(self) -> Select[Any]:
        """Messages that a live instance is still owed."""
        m = self._tables.messages.c
        return (
            self._of_page(m.topic, m.sent_at)
            .join_from(
                self._ledger.table,
                self._tables.messages,
                and_(*self._of_instance(m.instance_id)),
            )
            .where(m.payload.is_not(None))
        )

    # --- at large ---

    @cached_property
    def unknown_statuses(self) -> CompoundSelect[Any]:
        """Rows whose status is none of ours: what lies between them in the index."""
        status, known = self._c.status, _values(Status)
        gaps = [
            (status < known[0],),
            *((status > one, status < other) for one, other in pairwise(known)),
            (status > known[-1],),
        ]
        parts = (self._who(status).where(*gap).order_by(status) for gap in gaps)
        return union_all(*(select(part.subquery()) for part in parts))

    @cached_property
    def ended_in_sight(self) -> Select[Any]:
        """Ended instances that workers would claim."""
        c = self._c
        return (
            self._who(*self._sight)
            .where(c.runnable_at.is_not(None), c.status.in_(_values(ENDED)))
            # The order of an index that holds only what is in sight.
            .order_by(c.workflow_name, c.runnable_at)
        )

    @cached_property
    def overdue_timers(self) -> Select[Any]:
        """Timers that were due long ago, the first due first."""
        t = self._tables.timers.c
        return (
            self._who(t.step_name, t.due_at)
            .join_from(
                self._ledger.table,
                self._tables.timers,
                t.instance_id == self._c.id,
            )
            .where(text("settled_at IS NULL"), t.due_at < self._long_ago)
            .order_by(t.due_at)
        )

    @cached_property
    def missed_deadlines(self) -> Select[Any]:
        """Instances that go on long after their deadline, the first one first."""
        c = self._c
        late = (c.deadline_at < self._long_ago, c.ended_at.is_(None))
        return self._who(c.deadline_at).where(*late).order_by(c.deadline_at)

    # --- what they are made of ---

    def _who(self, *facts: ColumnElement[Any]) -> Select[Any]:
        c = self._c
        return select(c.workflow_name, c.workflow_id, *facts).limit(_limit())

    def _of_page(self, *facts: ColumnElement[Any]) -> Select[Any]:
        c = self._c
        return (
            self._who(*facts)
            .where(
                c.status == bindparam("status_is"),
                c.id > bindparam("after_is"),
                c.id <= bindparam("last_is"),
            )
            .order_by(c.id)
        )

    @cached_property
    def _long_ago(self) -> ColumnElement[int]:
        return self._ledger.now - bindparam("patience_is", type_=BigInteger)

    @cached_property
    def _waits(self) -> Any:
        """The names that an instance is suspended on, a row each."""
        names = self._c.waits_on
        if self._dialect == "sqlite":
            return func.json_each(names).table_valued("value", name="waits")
        each = func.json_array_elements_text(cast(names, JSON))
        return each.table_valued("value", name="waits").render_derived()

    def _is_recorded(self, name: ColumnElement[str]) -> Exists:
        """Whether a live entry of the instance has this name."""
        j = self._tables.journal.c
        entry = exists().where(
            *self._belongs(j.instance_id, j.generation), _LIVE, j.step_name == name
        )
        return entry.correlate_except(self._tables.journal)

    def _belongs(self, instance: Any, generation: Any) -> list[ColumnElement[bool]]:
        """Whether a row is of the current generation of an instance of the page.

        That it lies in the page's range follows, but only people know that.
        """
        return [generation == self._c.generation, *self._of_instance(instance)]

    def _of_instance(self, instance: Any) -> list[ColumnElement[bool]]:
        return [
            instance == self._c.id,
            instance > bindparam("after_is", type_=BigInteger),
            instance <= bindparam("last_is", type_=BigInteger),
        ]


def _limit() -> Any:
    return bindparam("limit_is", type_=Integer)


def _values(statuses: Any) -> list[str]:
    return sorted(status.value for status in statuses)
