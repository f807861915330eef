"""Every exception of the library, in one tree.

::

    WorkflowError
    ├── AuthorError                 a mistake in a workflow's code; never retried
    │   ├── NotAWorkflow            (TypeError) @workflow on what is no generator
    │   ├── DuplicateWorkflow       two bodies under one name
    │   ├── NotACommand             (TypeError) a body yielded something else
    │   ├── ForgottenYieldFrom      (TypeError) a generator where a value belongs
    │   ├── InvalidName             (ValueError) a name or id that cannot be one
    │   ├── InvalidDuration         (ValueError) NaN, negative, endless, naive
    │   ├── DuplicateStepName       one name for two pieces of work
    │   ├── NameKindMismatch        a step finds a wake under its name, or the reverse
    │   ├── DeclarationError        (TypeError) a declaration that is of no use
    │   │   ├── UnresolvedAnnotation    a type that does not exist at run time
    │   │   └── UnsupportedType         a declared type the codec cannot carry
    │   ├── InvalidInput            (TypeError) arguments that do not fit the signature
    │   ├── JournalEncodeError      (ValueError) a value that cannot be recorded
    │   ├── IllegalRotation         ContinueAsNew where it cannot work
    │   ├── EmptyCompound           (ValueError) a race nobody runs
    │   └── IgnoredCancellation     a body that swallows its cancellation for ever
    ├── RequestError                what a caller asked for cannot be done
    │   ├── UnknownWorkflow         no body under that name in this engine
    │   ├── InstanceNotFound        no such instance
    │   ├── InstanceExists          a start that was to be the first is not
    │   ├── EntryNotFound           no such entry in the journal
    │   ├── AwakeableNotFound       no awakeable has that id
    │   ├── InputConflict           the instance exists with other arguments
    │   ├── IllegalMove             the instance's status does not allow it
    │   ├── ResurrectAmbiguous      say which later steps run again
    │   ├── WorkflowFailed          Handle.result(): the instance failed
    │   │   └── DeadlineExceeded        it had not ended by its deadline
    │   ├── WorkflowCancelled       Handle.result(): the instance was cancelled
    │   ├── UnknownRevision         (ValueError) no such schema revision
    │   ├── ResultTimeout           (TimeoutError) Handle.result(): not ended in time
    │   └── WaitsForItself          a step waits for the instance that runs it
    ├── WakeFailed                  thrown into a body: what it waits for will not come
    │   ├── AwakeableRejected       somebody rejected the awakeable
    │   ├── AwakeableCancelled      somebody cancelled the awakeable
    │   ├── ChildFailed             the child failed
    │   └── ChildCancelled          the child was cancelled
    ├── WaitTimeout                 (TimeoutError) thrown into a body: no more time
    ├── ChildOwned                  thrown into a body: another workflow spawned it
    ├── StepFailed                  thrown into a body: the step it waits for failed
    ├── MapFailed                   raised in a body: too much of a map_each failed
    ├── StepTimeout                 (TimeoutError) a step took longer than it may
    ├── NonRetryable                raised by a step: trying again is of no use
    ├── RetryAfter                  raised by a step: try again, but not before
    └── EngineError                 trouble of the engine or its database
        ├── StepDecodeError         a recorded value no longer fits its type
        ├── JournalDecodeError      an entry of a kind or version this code cannot read
        ├── JournalAppendError      the database refused an append
        ├── UnknownPatch            the instance's patch set holds an id from other code
        ├── LeaseLost               another worker owns the instance now
        ├── LeaseHeld               another worker is running the instance
        ├── SchemaOutOfDate         the database needs an upgrade first
        ├── SchemaTooNew            the database is ahead of this code
        ├── MigrationLocked         (TimeoutError) another session migrates
        ├── StoreUnavailable        the database is away, locked or full
        ├── StoreRefused            the database cannot be used as it is
        └── EngineClosed            the engine was closed, or crossed a fork

The first paragraph of a class's docstring is its message: ``{facts}`` in it are filled
from the keyword arguments, which are attributes of the exception too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

import attrs


class WorkflowError(Exception):
    """something went wrong in a workflow or its engine"""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        for name, fact in facts.items():
            setattr(self, name, fact)
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        template = inspect.cleandoc(type(self).__doc__ or "").split("\n\n")[0]
        return " ".join(template.split()).format_map(self.facts)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _rebuild, (type(self), self.facts)


def _rebuild(error: type[WorkflowError], facts: dict[str, Any]) -> WorkflowError:
    return error(**facts)


# --- the author's mistakes ------------------------------------------------------------


class AuthorError(WorkflowError):
    """the workflow's code is wrong

    Thrown into the body where it happens. A body that lets it out fails at once: no
    retry could change the outcome.
    """


class NotAWorkflow(AuthorError, TypeError):
    """{name} cannot be a workflow: {problem}; write a generator function that yields
    commands"""

    name: str
    problem: str


class DuplicateWorkflow(AuthorError):
    """two workflows are called {workflow!r}: {first} and {second}; give one of them
    another name with @workflow(name=...)"""

    workflow: str
    first: str
    second: str


class NotACommand(AuthorError, TypeError):
    """workflow {workflow!r} yielded {found}, which is not a command; {advice}"""

    workflow: str
    found: str
    advice: str


class ForgottenYieldFrom(AuthorError, TypeError):
    """workflow {workflow!r}, {where}: got a generator ({found}); use `yield from
    {found}(...)`"""

    workflow: str
    where: str
    found: str


class InvalidName(AuthorError, ValueError):
    """{name} is not a valid {what}: {problem}"""

    name: str
    what: str
    problem: str


class InvalidDuration(AuthorError, ValueError):
    """{what} cannot be {found}: {problem}"""

    what: str
    found: str
    problem: str


class DuplicateStepName(AuthorError):
    """workflow {workflow!r} uses the name {step!r} twice in one generation, {first} and
    {second}; give each step its own name, for example with the loop variable in it"""

    workflow: str
    step: str
    first: str
    second: str


class NameKindMismatch(AuthorError):
    """workflow {workflow!r} yields {wanted} named {step!r}, but the journal holds
    {found} under that name; give it a name of its own"""

    workflow: str
    step: str
    wanted: str
    found: str


class DeclarationError(AuthorError, TypeError):
    """what a function declares is of no use

    ``place`` says where it was met, once that is known: ``"workflow 'w', step 's': "``.
    """

    place: str

    def __init__(self, *, place: str = "", **facts: Any) -> None:
        super().__init__(place=place, **facts)

    def placed(self, workflow: str, where: str) -> Self:
        """A copy that says where it was met, unless it says so already."""
        place = self.place or f"workflow {workflow!r}, {where}: "
        return type(self)(**{**self.facts, "place": place})


class UnresolvedAnnotation(DeclarationError):
    """{place}the annotations of {function} cannot be resolved: {problem}; import the
    names at run time, not under TYPE_CHECKING, or declare the result with
    .returns(...)"""

    function: str
    problem: str


class UnsupportedType(DeclarationError):
    """{place}{type} cannot be stored{path}: {problem}; {advice}"""

    type: str
    path: str
    problem: str
    advice: str


class InvalidInput(AuthorError, TypeError):
    """workflow {workflow!r} cannot start with these arguments: {problem}"""

    workflow: str
    problem: str


class JournalEncodeError(AuthorError, ValueError):
    """workflow {workflow!r}, {where}: cannot record the value at {path} as {expected}:
    {problem}"""

    workflow: str
    where: str
    path: str
    expected: str
    problem: str


class IllegalRotation(AuthorError):
    """workflow {workflow!r} yields ContinueAsNew {where}; rotate from the body itself,
    before a cancellation reaches it"""

    workflow: str
    where: str


class EmptyCompound(AuthorError, ValueError):
    """workflow {workflow!r}: AnyOf needs at least one member, since its value is that
    of the first to end"""

    workflow: str


class IgnoredCancellation(AuthorError):
    """workflow {workflow!r} ignored cancellation: CancelRequested was thrown into it
    {times} times and it still waits; let CancelRequested out once cleanup is done"""

    workflow: str
    times: int


# --- what a caller asked for cannot be done -------------------------------------------


class RequestError(WorkflowError):
    """the request cannot be met"""


class UnknownWorkflow(RequestError, LookupError):
    """no workflow is called {workflow!r} in this engine; pass it in
    Engine(workflows=[...])"""

    workflow: str


class InstanceNotFound(RequestError, LookupError):
    """workflow {workflow!r} has no instance {id!r}"""

    workflow: str
    id: str


class InstanceExists(RequestError):
    """workflow {workflow!r} has had an instance {id!r} since {since}; it is {status}

    Attributes:
        since: when it was started, in UTC.
        status: a `Status`.
    """

    workflow: str
    id: str
    since: datetime
    status: str


class EntryNotFound(RequestError, LookupError):
    """workflow {workflow!r}, instance {id!r}: no {what}"""

    workflow: str
    id: str
    what: str


class AwakeableNotFound(RequestError, LookupError):
    """no awakeable has the id {id!r}"""

    id: str


class InputConflict(RequestError, ValueError):
    """workflow {workflow!r}, instance {id!r} was started with other arguments
    ({differing}); use another id, or call it without arguments to attach"""

    workflow: str
    id: str
    differing: str


class IllegalMove(RequestError):
    """workflow {workflow!r}, instance {id!r} is {status}: {problem}"""

    workflow: str
    id: str
    status: str
    problem: str


class ResurrectAmbiguous(RequestError):
    """workflow {workflow!r}, instance {id!r}: the steps {names} were recorded after the
    failure; say rerun=() to keep them, or rerun=(...) with the names to run again"""

    workflow: str
    id: str
    names: Sequence[str]


class WorkflowFailed(RequestError):
    """workflow {workflow!r}, instance {id!r} failed: {reason}"""

    workflow: str
    id: str
    reason: str
    type: str
    message: str
    remote_traceback: str


class DeadlineExceeded(WorkflowFailed):
    """workflow {workflow!r}, instance {id!r} failed: {reason}

    It had not ended by its deadline.
    """


class WorkflowCancelled(RequestError):
    """workflow {workflow!r}, instance {id!r} was cancelled"""

    workflow: str
    id: str


class ResultTimeout(RequestError, TimeoutError):
    """workflow {workflow!r}, instance {id!r} is still {status} after {seconds} s"""

    workflow: str
    id: str
    status: str
    seconds: float


class UnknownRevision(RequestError, ValueError):
    """this code has no schema revision {revision!r}; it knows {known}"""

    revision: str
    known: str


class WaitsForItself(RequestError):
    """step {step!r} of workflow {workflow!r}, instance {id!r} waits for the instance
    that runs it, which would never end"""

    workflow: str
    id: str
    step: str


# --- what a body sees -----------------------------------------------------------------


class StepFailed(WorkflowError):
    """step {step!r} failed: {type}: {message}

    Thrown into the body at the yield. It is always built from the journal's record, so
    the first run and every replay see the same text.

    Attributes:
        type: the name of the class that the step raised.
        message: the text of the exception, which may be empty.
        remote_traceback: the traceback as text, as it was when the step raised.
    """

    step: str
    type: str
    message: str
    remote_traceback: str

    def __init__(
        self, *, step: str, type: str, message: str, remote_traceback: str = ""
    ) -> None:
        super().__init__(
            step=step, type=type, message=message, remote_traceback=remote_traceback
        )

    def _sentence(self) -> str:
        return super()._sentence().removesuffix(": ")

    @property
    def type_name(self) -> str:
        """The same as ``type``, for code in which that name would hide the builtin."""
        return self.type


class WakeFailed(WorkflowError):
    """what is waited for will not come

    Thrown into the body that waits. Like a step's failure it is recorded, and final
    when the body lets it out.
    """


class AwakeableRejected(WakeFailed):
    """the awakeable {label!r} was rejected: {reason}"""

    label: str
    reason: str


class AwakeableCancelled(WakeFailed):
    """the awakeable {label!r} was cancelled"""

    label: str


class ChildFailed(WakeFailed):
    """the child {workflow!r}, {id!r} failed: {reason}"""

    workflow: str
    id: str
    reason: str
    type: str
    message: str
    remote_traceback: str


class ChildCancelled(WakeFailed):
    """the child {workflow!r}, {id!r} was cancelled"""

    workflow: str
    id: str


class MapFailed(WorkflowError):
    """map_each {name!r}: {failed} failed, {succeeded} succeeded, {skipped} were skipped

    Attributes:
        result: the `MapResult`, which says which.
    """

    name: str
    failed: int
    succeeded: int
    skipped: int
    result: Any


class StepTimeout(WorkflowError, TimeoutError):
    """step {step!r} took longer than the {seconds} s it may"""

    step: str
    seconds: float


class NonRetryable(WorkflowError):
    """{reason}

    Raise it in a step, or raise something from it: whatever its policy, the step is not
    tried again.
    """

    reason: str

    def __init__(self, reason: str = "trying again is of no use") -> None:
        super().__init__(reason=reason)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.reason,)


class RetryAfter(WorkflowError):
    """try again in {seconds} s

    Raise it in a step that has a retry policy to say when the next attempt is due.

    Args:
        delay: a timedelta, or seconds.
    """

    seconds: float

    def __init__(self, delay: timedelta | float) -> None:
        self.delay = delay
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        super().__init__(seconds=seconds)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.delay,)


class WaitTimeout(WorkflowError, TimeoutError):
    """workflow {workflow!r} waited in vain for {wait!r}: the time for it is up

    What comes later answers a later wait for the same thing.
    """

    workflow: str
    wait: str


class ChildOwned(WorkflowError):
    """{workflow!r}, {id!r} cannot be spawned: it is the child of another instance, or
    the instance that spawns it"""

    workflow: str
    id: str


class CancelRequested(BaseException):
    """Thrown into a body, or into the branch that lost a race, so that it cleans up.

    Not an Exception, so that `except Exception` does not swallow it. Let it out once
    the cleanup is done.
    """


# --- trouble of the engine or its database --------------------------------------------


class EngineError(WorkflowError):
    """the engine or its database is in trouble"""


class StepDecodeError(EngineError):
    """workflow {workflow!r}, step {step!r}: cannot decode the recorded value at {path}
    as {expected}: {problem}; deploy code that reads it, and the instance goes on"""

    workflow: str
    step: str
    path: str
    expected: str
    problem: str


class JournalDecodeError(EngineError):
    """workflow {workflow!r}, journal entry {position}: this code cannot read an entry
    of kind {kind!r}, version {version}; deploy the version that wrote it, or a later
    one"""

    workflow: str
    position: int
    kind: str
    version: int


class JournalAppendError(EngineError):
    """workflow {workflow!r}, instance {id!r}: the journal refused {entries}:
    {problem}"""

    workflow: str
    id: str
    entries: str
    problem: str


class UnknownPatch(EngineError):
    """workflow {workflow!r}, instance {id!r} was begun by code with the patches
    {patches}, which are neither active nor retired here; add them to active_patches, or
    to retired_patches once no body asks for them"""

    workflow: str
    id: str
    patches: str


class LeaseLost(EngineError):
    """workflow {workflow!r}, instance {id!r}: the lease was lost; another worker may
    run it now"""

    workflow: str
    id: str


class LeaseHeld(EngineError):
    """workflow {workflow!r}, instance {id!r} is being run by {owner} until {until}"""

    workflow: str
    id: str
    owner: str
    until: datetime


class SchemaOutOfDate(EngineError):
    """the database has schema revision {found}, this code needs {needed}; run:
    {command}"""

    found: str
    needed: str
    command: str


class SchemaTooNew(EngineError):
    """the database has schema revision {found}, which code of revision {needed} can no
    longer read; deploy a newer workflow_engine"""

    found: str
    needed: str


class MigrationLocked(EngineError, TimeoutError):
    """another session ({holder}) has been migrating this database for more than
    {seconds} s; wait for it or end it, then try again"""

    holder: str
    seconds: float


class StoreUnavailable(EngineError):
    """the database cannot be reached or written just now: {problem}

    Nothing happened, and trying again is safe; unless ``ambiguous``, which says that
    the connection was lost while committing, so that the commit may have happened.
    """

    problem: str
    ambiguous: bool = False


class StoreRefused(EngineError):
    """the database cannot be used: {problem}"""

    problem: str


class EngineClosed(EngineError):
    """the engine is closed: {problem}"""

    problem: str


@attrs.define
class ValueProblem(Exception):
    """What the codec found wrong, before anybody knows whose value it was.

    Attributes:
        path: where inside the value, from ``$``, as in ``$.lines[3].price``.
        expected: the declared type, as text.
        problem: what was found and what to do.
    """

    path: str
    expected: str
    problem: str

    def __str__(self) -> str:
        return (
            f"cannot carry the value at {self.path} as {self.expected}: {self.problem}"
        )
