"""Sending messages to instances."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from workflow_engine.core.commands import UNDECLARED
from workflow_engine.core.identity import check_name
from workflow_engine.core.inference import infer_type
from workflow_engine.core.rows import Key, Message, Missing
from workflow_engine.errors import IllegalMove, InstanceNotFound
from workflow_engine.runtime.handle import Handle
from workflow_engine.runtime.outside import Named, Outside, key_of
from workflow_engine.runtime.registry import Workflow
from workflow_engine.runtime.starting import place_order, refuse_conflict

if TYPE_CHECKING:
    from workflow_engine.store.callers import CallersSession

P = ParamSpec("P")
R = TypeVar("R")


class Messaging(Outside):
    """The part of `Engine` that sends."""

    def send(
        self,
        workflow: Named,
        id: str,
        topic: str,
        value: object,
        key: str | None = None,
        *,
        returns: Any = UNDECLARED,
        session: CallersSession | None = None,
    ) -> bool:
        """Send a message, which one `receive` on its topic will take.

        It is kept until then, in the order of sending. An instance that has failed or
        was cancelled gets it when it is resurrected.

        Args:
            key: sending again with the same key, on any topic, changes nothing, in any
                generation. Give one when the call itself may be repeated.
            returns: the type the value is recorded as, when the value alone does not
                show it.
            session: send it in the transaction of this SQLAlchemy session, when and if
                you commit that. See `Engine.starting`.

        Returns:
            Whether this call sent it. False: the instance has completed, or has been
            sent this key before.

        Raises:
            InstanceNotFound: there is no such instance.
            JournalEncodeError: the value cannot be recorded; nothing was.
            InvalidName: a topic or key that cannot be one.
        """
        to = key_of(workflow, id)
        message = self._message(to, topic, value, key, returns)
        answer = self._equip().within(session).send(to, message)
        if isinstance(answer, Missing):
            raise InstanceNotFound(workflow=to.workflow, id=to.id)
        return answer.delivered

    @overload
    def send_with_start(
        self,
        workflow: Workflow[P, R],
        id: str,
        topic: str,
        value: object,
        /,
        *args: Any,
        key: str | None = None,
        **kwargs: Any,
    ) -> Handle[R]: ...

    @overload
    def send_with_start(
        self,
        workflow: str,
        id: str,
        topic: str,
        value: object,
        /,
        *args: Any,
        key: str | None = None,
        **kwargs: Any,
    ) -> Handle[Any]: ...

    def send_with_start(
        self,
        workflow: Workflow[..., Any] | str,
        id: str,
        topic: str,
        value: object,
        /,
        *args: Any,
        key: str | None = None,
        **kwargs: Any,
    ) -> Handle[Any]:
        """Send a message, and start the instance if there is none, in one transaction.

        Args:
            args, kwargs: the arguments of the workflow, as `Engine.start` takes them.
            key: as for `send`. A parameter of the workflow that is called so is given
                by its place.

        A message that was sent with its key before is not sent again.

        Raises:
            IllegalMove: the instance has completed, and will take no message.
            InputConflict: it exists with other arguments; nothing was sent.
            InvalidInput, UnknownWorkflow, InvalidName, JournalEncodeError: nothing was
                recorded.
        """
        equipment = self._equip()
        order = place_order(equipment, workflow, id, args, kwargs)
        message = self._message(order.key, topic, value, key, UNDECLARED)
        answer = equipment.store.send(
            order.key,
            message,
            order.new,
            lambda row: refuse_conflict(equipment, order, row),
        )
        if isinstance(answer, Missing):
            assert order.problem is not None  # else it was started
            raise order.problem
        if not (answer.delivered or answer.repeated):
            raise IllegalMove(
                workflow=order.key.workflow,
                id=order.key.id,
                status=answer.instance.status,
                problem="it takes no messages any more",
            )
        return Handle(equipment, order.key, order.workflow)

    def _message(
        self, to: Key, topic: str, value: object, key: str | None, declared: Any
    ) -> Message:
        check_name(topic, "topic")
        if key is not None:
            check_name(key, "message key")
        type_ = infer_type(value) if declared is UNDECLARED else declared
        payload = self._encode(to, value, type_, topic)
        drawn = secrets.token_hex(16) if key is None else key
        return Message(topic, payload, drawn, is_keyed=key is not None)
