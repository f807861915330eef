"""Starts instances: arguments in, a row out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args, overload

import attrs

from workflow_engine.core.codec import Codec
from workflow_engine.core.durations import instant, microseconds, to_datetime
from workflow_engine.core.identity import check_name
from workflow_engine.core.ports import Store
from workflow_engine.core.rows import Instance, Key, NewInstance
from workflow_engine.errors import (
    DeclarationError,
    IllegalMove,
    InputConflict,
    InstanceExists,
    InvalidInput,
)
from workflow_engine.runtime.equipment import Equipment
from workflow_engine.runtime.handle import Handle
from workflow_engine.runtime.outside import key_of
from workflow_engine.runtime.registry import Workflow

if TYPE_CHECKING:
    from workflow_engine.store.callers import CallersSession

OnConflict = Literal["attach", "reject", "restart"]
"""What a start does when the instance exists."""

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen
class Order:
    """A request to start or attach.

    ``new`` is None when no arguments were given to a workflow that needs some: then the
    instance must exist. ``problem`` says what was missing.
    """

    key: Key
    workflow: Workflow[..., Any]
    new: NewInstance | None
    given: bool
    problem: InvalidInput | None = None


def place_order(
    equipment: Equipment,
    workflow: Workflow[..., Any] | str,
    id: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    tags: Mapping[str, str] | None = None,
    delay: int = 0,
    timeout: int | None = None,
    deadline: int | None = None,
) -> Order:
    """Check a start's names and arguments. Touches no database.

    Raises:
        UnknownWorkflow, InvalidName, InvalidInput: nothing is recorded.
        UnresolvedAnnotation, UnsupportedType: likewise; the workflow declares types
            that are of no use.
    """
    key = key_of(workflow, id)
    definition = equipment.registry.get(key.workflow)
    check_declarations(equipment.codec, definition)
    given = bool(args or kwargs)
    try:
        text = definition.parameters.encode(equipment.codec, key.workflow, args, kwargs)
    except DeclarationError as error:
        raise error.placed(key.workflow, "its arguments") from None
    except InvalidInput as problem:
        if given:
            raise
        return Order(key, definition, None, given, problem)
    new = NewInstance(
        text, secrets.token_hex(16), check_tags(tags or {}), delay, timeout, deadline
    )
    return Order(key, definition, new, given)


def check_declarations(codec: Codec, workflow: Workflow[..., Any]) -> None:
    """See that what a workflow declares exists, and that its result can be recorded.

    Raises:
        UnresolvedAnnotation, UnsupportedType: it does not, or it cannot.
    """
    where = "its parameters"
    try:
        _ = workflow.parameters
        where = "its result"
        codec.check(workflow.result_type)
    except DeclarationError as error:
        raise error.placed(workflow.name, where) from None


def refuse_conflict(equipment: Equipment, order: Order, instance: Instance) -> None:
    """Compare the arguments of an order with those the instance was started with.

    Raises:
        InputConflict: some differ.
    """
    if not order.given or order.new is None or instance.input is None:
        return
    if instance.input == order.new.input:
        return
    parameters = order.workflow.parameters
    names = parameters.differing(equipment.codec, instance.input, order.new.input)
    if names:
        raise InputConflict(
            workflow=order.key.workflow, id=order.key.id, differing=", ".join(names)
        )


def check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of ``tags`` if each key and value is short, printable text.

    Raises:
        InvalidName: naming the tag.
    """
    return {
        check_name(name, "tag name"): check_name(value, f"value of tag {name!r}")
        for name, value in tags.items()
    }


class Starting:
    """Options of a start, apart from the workflow's own arguments."""

    def __init__(
        self,
        equip: Callable[[], Equipment],
        tags: Mapping[str, str] | None,
        delay: timedelta | float,
        on_conflict: OnConflict = "attach",
        timeout: timedelta | float | None = None,
        deadline: datetime | None = None,
        session: CallersSession | None = None,
    ) -> None:
        if on_conflict not in get_args(OnConflict):
            known = ", ".join(get_args(OnConflict))
            raise ValueError(f"on_conflict is one of {known}, not {on_conflict!r}")
        if timeout is not None and deadline is not None:
            raise ValueError("give a timeout or a deadline, not both")
        self._timeout = None if timeout is None else microseconds(timeout, "timeout")
        self._deadline = None if deadline is None else instant(deadline, "deadline")
        self._equip = equip
        self._session = session
        self._on_conflict = on_conflict
        self._tags = check_tags(tags or {})
        self._delay = microseconds(delay, "delay")

    @overload
    def start(self, workflow: Workflow[..., R], id: str, /) -> Handle[R]: ...

    @overload
    def start(
        self, workflow: Workflow[P, R], id: str, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]: ...

    @overload
    def start(
        self, workflow: str, id: str, /, *args: Any, **kwargs: Any
    ) -> Handle[Any]: ...

    def start(
        self,
        workflow: Workflow[..., Any] | str,
        id: str,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Handle[Any]:
        """Record the instance; a worker will run it. If it exists, do what
        ``on_conflict`` says.

        Raises:
            InputConflict: what is attached to was started with other arguments.
            InstanceExists: it exists, and ``on_conflict`` is "reject".
            IllegalMove: "restart" would delete a child whose parent may attach again.
            UnknownWorkflow, InvalidName, InvalidInput: nothing is recorded.
        """
        equipment = self._equip()
        order = place_order(
            equipment,
            workflow,
            id,
            args,
            kwargs,
            tags=self._tags,
            delay=self._delay,
            timeout=self._timeout,
            deadline=self._deadline,
        )
        if order.new is None:
            self._attach(equipment.within(self._session), order)
        else:
            self._begin(equipment, order, order.new)
        return Handle(equipment, order.key, order.workflow)

    def _attach(self, store: Store, order: Order) -> None:
        """See that the instance is there, and may stay, without arguments for a new
        one."""
        instance = store.find(order.key)
        is_over = instance is not None and instance.status.is_ended
        if instance is None or (is_over and self._on_conflict == "restart"):
            assert order.problem is not None  # that is why there is no ``new``
            raise order.problem
        if self._on_conflict == "reject":
            raise _exists(order.key, instance)

    def _begin(self, equipment: Equipment, order: Order, new: NewInstance) -> None:
        store = equipment.within(self._session)
        restarts = self._on_conflict == "restart"
        begin = store.restart if restarts else store.start
        instance, created = begin(order.key, new)
        if created:
            return
        if self._on_conflict == "reject":
            raise _exists(order.key, instance)
        if restarts and instance.status.is_ended:
            raise IllegalMove(
                workflow=order.key.workflow,
                id=order.key.id,
                status=instance.status,
                problem="it is not started afresh: its parent has not completed, and "
                "may attach to it again",
            )
        refuse_conflict(equipment, order, instance)


def _exists(key: Key, instance: Instance) -> InstanceExists:
    return InstanceExists(
        workflow=key.workflow,
        id=key.id,
        status=instance.status,
        since=to_datetime(instance.created_at),
    )
