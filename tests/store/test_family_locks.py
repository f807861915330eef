"""Parents and children at once, over and over: no deadlock, and nobody is forgotten.

The rows of a family are locked in the order of their numbers. PostgreSQL would find a
deadlock and end one of the two; the store would try again, and nobody would know. So
these tests count what PostgreSQL says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import attrs
import pytest
from sqlalchemy import event

from workflow_engine.core.lifecycle import Status
from workflow_engine.core.rows import Key, Lease
from workflow_engine.errors import StoreUnavailable
from workflow_engine.store.database import Database
from workflow_engine.store.sql_store import SqlStore

from ..wholeness import check_whole
from .actors import BoundClock, end, history, lease_on, new, spawn, sql

pytestmark = pytest.mark.postgres

ROUNDS = 40
DEADLOCK = "40P01"


@attrs.define
class Crowd:
    """Sessions that do something at the same moment."""

    databases: Sequence[Database]
    clock: BoundClock
    deadlocks: int = 0

    def __attrs_post_init__(self) -> None:
        for database in self.databases:
            event.listen(database.engine, "handle_error", self._note)

    def _note(self, context: Any) -> None:
        code = getattr(context.original_exception, "sqlstate", None)
        self.deadlocks += code == DEADLOCK

    def store(self, number: int = 0) -> SqlStore:
        return SqlStore(self.databases[number], self.clock)

    def at_once(self, *acts: Callable[[SqlStore], Any]) -> list[Any]:
        """Let each session do its part; what came of it, errors raised."""
        barrier = Barrier(len(acts))

        def one(number: int, act: Callable[[SqlStore], Any]) -> Any:
            store = self.store(number)
            barrier.wait(30)
            return act(store)

        with ThreadPoolExecutor(len(acts)) as threads:
            calls = [threads.submit(one, *each) for each in enumerate(acts)]
            return [call.result(60) for call in calls]


@pytest.fixture
def crowd(postgres_url: str, clock: BoundClock) -> Iterator[Crowd]:
    databases = [Database.open(postgres_url) for _ in range(3)]
    crowd = Crowd(databases, clock)
    yield crowd
    for database in databases:
        database.close()
    assert crowd.deadlocks == 0


def overdue(database: Database, *leases: Lease) -> None:
    """Give instances a deadline that has passed."""
    numbers = ", ".join(str(lease.instance) for lease in leases)
    sql(database, f"UPDATE wf_instances SET deadline_at = 1 WHERE id IN ({numbers})")


def a_family(
    store: SqlStore, number: int, *children: str
) -> tuple[Lease, dict[str, Lease]]:
    """A leased parent and leased children; in every second family they are older."""
    keys = [Key("child", f"{name}{number}") for name in children]
    parent = Key("parent", str(number))
    order = [*keys, parent] if number % 2 else [parent, *keys]
    leases = {key: lease_on(store, key) for key in order}
    names = zip(children, keys, strict=True)
    return leases[parent], {name: leases[key] for name, key in names}


def told(store: SqlStore, parent: Lease) -> list[str]:
    """The children of whose end the parent's journal tells."""
    wakes = [each for each in history(store, parent) if "wake" in each.kind]
    return sorted(str(each.name) for each in wakes)


def finish(lease: Lease) -> Callable[[SqlStore], Any]:
    return lambda store: store.finish(lease, Status.COMPLETED, "7", ())


def test_attaching_against_the_end_of_the_child(crowd: Crowd) -> None:
    for number in range(ROUNDS):
        parent, children = a_family(crowd.store(), number, "c")
        attach = [spawn(children["c"].key)]
        crowd.at_once(
            lambda store: store.append(parent, attach, 0, None),  # noqa: B023
            finish(children["c"]),
        )
        assert told(crowd.store(), parent) == [f"child:child:c{number}"]


def test_two_ends_against_the_resurrection_of_the_parent(crowd: Crowd) -> None:
    for number in range(ROUNDS):
        parent, children = a_family(crowd.store(), number, "a", "b")
        attach = [spawn(lease.key) for lease in children.values()]
        crowd.store().append(parent, attach, 0, None)
        crowd.store().fail(parent, "{}", 2)
        crowd.at_once(
            lambda store: store.resurrect(parent.key, ()),  # noqa: B023
            finish(children["a"]),
            finish(children["b"]),
        )
        ends = [f"child:child:a{number}", f"child:child:b{number}"]
        assert told(crowd.store(), parent) == ends


def test_a_parent_ending_its_children_against_their_own_ends(crowd: Crowd) -> None:
    for number in range(ROUNDS):
        parent, children = a_family(crowd.store(), number, "b", "a")
        attach = [spawn(lease.key) for lease in children.values()]
        crowd.store().append(parent, attach, 0, None)
        ends = [end(lease.key) for lease in children.values()]
        crowd.at_once(
            lambda store: store.append(parent, ends, 2, None),  # noqa: B023
            finish(children["a"]),
            finish(children["b"]),
        )
        expected = [f"child:child:a{number}", f"child:child:b{number}"]
        assert told(crowd.store(), parent) == expected


def test_two_parents_attaching_to_the_same_children(crowd: Crowd) -> None:
    for number in range(ROUNDS):
        store = crowd.store()
        keys = [Key("child", f"{name}{number}") for name in ("a", "b", "c", "d")]
        older, younger = [keys[:1], [], []][number % 3], [[], keys[1:3], []][number % 3]
        for key in older:
            store.start(key, new())
        parents = [lease_on(store, Key("parent", f"{number} {n}")) for n in (1, 2)]
        for key in younger:
            store.start(key, new())
        one, two = ([spawn(key) for key in order] for order in (keys, keys[::-1]))
        crowd.at_once(
            lambda store: store.append(parents[0], one, 0, None),  # noqa: B023
            lambda store: store.append(parents[1], two, 0, None),  # noqa: B023
        )
        kinds = [[e.kind for e in history(store, parent)] for parent in parents]
        assert sorted(kinds) == [["step_failed"] * 4, ["step_ok"] * 4]


def test_three_levels_that_end_at_once(crowd: Crowd) -> None:
    for number in range(ROUNDS):
        store = crowd.store()
        ids = ["top", "middle", "bottom"]
        order = ids if number % 2 else ["middle", "bottom", "top"]
        keys = {id: Key("level", f"{id}{number}") for id in ids}
        leases = {id: lease_on(store, keys[id]) for id in order}
        store.append(leases["top"], [spawn(keys["middle"])], 0, None)
        store.append(leases["middle"], [spawn(keys["bottom"])], 0, None)
        crowd.at_once(
            lambda store: store.cancel(keys["top"]),  # noqa: B023
            lambda store: store.cancel(keys["middle"]),  # noqa: B023
            finish(leases["bottom"]),
        )
        # Whoever was alive has been told.
        for above, below in (("top", "middle"), ("middle", "bottom")):
            journal = [each.kind for each in history(store, leases[above])]
            assert journal in (
                ["step_ok", "wake_failed", "cancelled"],
                ["step_ok", "wake", "cancelled"],
                ["step_ok", "cancelled"],
            )
            assert f"{below}{number}"


def test_two_that_end_what_is_overdue_against_the_end_of_a_child(
    crowd: Crowd,
) -> None:
    for number in range(ROUNDS // 2):
        parent, children = a_family(crowd.store(), number, "a", "b")
        attach = [spawn(lease.key) for lease in children.values()]
        crowd.store().append(parent, attach, 0, None)
        overdue(crowd.databases[0], parent, children["a"])
        crowd.at_once(
            lambda store: store.fail_overdue(9),
            lambda store: store.fail_overdue(9),
            finish(children["b"]),
        )
        crowd.store().fail_overdue(9)  # those that somebody held just then
        rows = [crowd.store().find(each.key) for each in (parent, children["a"])]
        assert {row.status for row in rows if row} == {Status.FAILED}
        for lease in (parent, children["a"]):
            ends = [e.kind for e in history(crowd.store(), lease) if e.kind == "failed"]
            assert len(ends) == 1


def test_a_cascade_against_the_growth_and_the_end_of_its_family(crowd: Crowd) -> None:
    for number in range(ROUNDS // 2):
        parent, children = a_family(crowd.store(), number, "a", "b")
        attach = [spawn(lease.key) for lease in children.values()]
        crowd.store().append(parent, attach, 0, None)
        grandchild = [spawn(Key("child", f"c{number}"))]
        crowd.at_once(
            lambda store: store.cancel(parent.key, cascade=True),  # noqa: B023
            lambda store: store.append(children["b"], grandchild, 0, None),  # noqa: B023
            finish(children["a"]),
        )
        keys = [parent.key, children["b"].key, Key("child", f"c{number}")]
        rows = [crowd.store().find(key) for key in keys]
        assert {row.status for row in rows if row} == {Status.CANCELLED}


def test_collections_against_attaching_resurrecting_and_starting_afresh(
    crowd: Crowd,
) -> None:
    """Links are deleted from both ends, and parents come back meanwhile."""
    for number in range(ROUNDS // 3):
        store = crowd.store()
        parents = []
        for each in range(4):
            parent, children = a_family(store, 4 * number + each, "a", "b")
            store.append(parent, [spawn(c.key) for c in children.values()], 0, None)
            for child in children.values():
                finish(child)(store)
            position = store.load(parent.instance, 0, 10).position
            if each % 2:
                finish(parent)(store)
            else:
                store.fail(parent, "{}", position)
            parents.append(parent.key)
        late = lease_on(store, Key("late", str(number)))
        free = Key("child", f"a{4 * number + 1}")
        acts: list[Callable[[SqlStore], Any]] = [
            lambda store: store.collect(0, 5),
            lambda store: store.collect(0, 3),
            [
                lambda store: store.restart(parents[1], new()),  # noqa: B023
                lambda store: store.resurrect(parents[0], ()),  # noqa: B023
                lambda store: attach(store, late, free),  # noqa: B023
            ][number % 3],
        ]
        crowd.at_once(*acts)
        store.cancel(parents[0])
        store.cancel(late.key)
        place = None
        while (answer := store.collect(0, 100, None, place)).place is not None:
            place = answer.place
    check_whole(str(crowd.databases[0].engine.url))


def attach(store: SqlStore, parent: Lease, child: Key) -> None:
    """Attach to a child that may be gone, or be going."""
    while True:
        try:
            store.append(parent, [spawn(child)], 0, None)
        except StoreUnavailable:
            continue
        return
