"""Durable execution for Python, as a library.

A workflow is a generator that yields commands; a pure interpreter answers each one from
a journal in your own database, or has it performed and records the outcome. Kill the
process anywhere, run it again, and it goes on where it was.

Everything public is importable from here. Names load on first use, so that writing a
workflow loads no SQLAlchemy.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow_engine.core.collecting import Collectable as Collectable
    from workflow_engine.core.commands import Command as Command
    from workflow_engine.core.commands import ContinueAsNew as ContinueAsNew
    from workflow_engine.core.commands import CurrentGeneration as CurrentGeneration
    from workflow_engine.core.commands import CurrentWorkflow as CurrentWorkflow
    from workflow_engine.core.commands import FreshOrdinal as FreshOrdinal
    from workflow_engine.core.commands import Patch as Patch
    from workflow_engine.core.commands import Step as Step
    from workflow_engine.core.commands import WorkflowBody as WorkflowBody
    from workflow_engine.core.commands import restore_seed as restore_seed
    from workflow_engine.core.compounds import AllOf as AllOf
    from workflow_engine.core.compounds import AnyOf as AnyOf
    from workflow_engine.core.faults import FaultKind as FaultKind
    from workflow_engine.core.lifecycle import Status as Status
    from workflow_engine.core.mapping import MapResult as MapResult
    from workflow_engine.core.mapping import map_each as map_each
    from workflow_engine.core.outcome import Cancelled as Cancelled
    from workflow_engine.core.outcome import Completed as Completed
    from workflow_engine.core.outcome import ContinuedAsNew as ContinuedAsNew
    from workflow_engine.core.outcome import Ending as Ending
    from workflow_engine.core.outcome import Failed as Failed
    from workflow_engine.core.outcome import Suspended as Suspended
    from workflow_engine.core.retry import RetryPolicy as RetryPolicy
    from workflow_engine.core.rows import AwakeableStatus as AwakeableStatus
    from workflow_engine.core.snapshots import Every as Every
    from workflow_engine.core.snapshots import Never as Never
    from workflow_engine.core.snapshots import OnTerminal as OnTerminal
    from workflow_engine.core.transaction import Transaction as Transaction
    from workflow_engine.core.waits import Await as Await
    from workflow_engine.core.waits import Awakeable as Awakeable
    from workflow_engine.core.waits import Child as Child
    from workflow_engine.core.waits import Receive as Receive
    from workflow_engine.core.waits import Send as Send
    from workflow_engine.errors import AuthorError as AuthorError
    from workflow_engine.errors import AwakeableCancelled as AwakeableCancelled
    from workflow_engine.errors import AwakeableNotFound as AwakeableNotFound
    from workflow_engine.errors import AwakeableRejected as AwakeableRejected
    from workflow_engine.errors import CancelRequested as CancelRequested
    from workflow_engine.errors import ChildCancelled as ChildCancelled
    from workflow_engine.errors import ChildFailed as ChildFailed
    from workflow_engine.errors import ChildOwned as ChildOwned
    from workflow_engine.errors import DeadlineExceeded as DeadlineExceeded
    from workflow_engine.errors import DuplicateStepName as DuplicateStepName
    from workflow_engine.errors import DuplicateWorkflow as DuplicateWorkflow
    from workflow_engine.errors import EmptyCompound as EmptyCompound
    from workflow_engine.errors import EngineClosed as EngineClosed
    from workflow_engine.errors import EngineError as EngineError
    from workflow_engine.errors import EntryNotFound as EntryNotFound
    from workflow_engine.errors import ForgottenYieldFrom as ForgottenYieldFrom
    from workflow_engine.errors import IgnoredCancellation as IgnoredCancellation
    from workflow_engine.errors import IllegalMove as IllegalMove
    from workflow_engine.errors import IllegalRotation as IllegalRotation
    from workflow_engine.errors import InputConflict as InputConflict
    from workflow_engine.errors import InstanceExists as InstanceExists
    from workflow_engine.errors import InstanceNotFound as InstanceNotFound
    from workflow_engine.errors import InvalidDuration as InvalidDuration
    from workflow_engine.errors import InvalidInput as InvalidInput
    from workflow_engine.errors import InvalidName as InvalidName
    from workflow_engine.errors import JournalAppendError as JournalAppendError
    from workflow_engine.errors import JournalDecodeError as JournalDecodeError
    from workflow_engine.errors import JournalEncodeError as JournalEncodeError
    from workflow_engine.errors import LeaseHeld as LeaseHeld
    from workflow_engine.errors import LeaseLost as LeaseLost
    from workflow_engine.errors import MapFailed as MapFailed
    from workflow_engine.errors import MigrationLocked as MigrationLocked
    from workflow_engine.errors import NameKindMismatch as NameKindMismatch
    from workflow_engine.errors import NonRetryable as NonRetryable
    from workflow_engine.errors import NotACommand as NotACommand
    from workflow_engine.errors import NotAWorkflow as NotAWorkflow
    from workflow_engine.errors import RequestError as RequestError
    from workflow_engine.errors import ResultTimeout as ResultTimeout
    from workflow_engine.errors import ResurrectAmbiguous as ResurrectAmbiguous
    from workflow_engine.errors import RetryAfter as RetryAfter
    from workflow_engine.errors import SchemaOutOfDate as SchemaOutOfDate
    from workflow_engine.errors import SchemaTooNew as SchemaTooNew
    from workflow_engine.errors import StepDecodeError as StepDecodeError
    from workflow_engine.errors import StepFailed as StepFailed
    from workflow_engine.errors import StepTimeout as StepTimeout
    from workflow_engine.errors import StoreRefused as StoreRefused
    from workflow_engine.errors import StoreUnavailable as StoreUnavailable
    from workflow_engine.errors import UnknownPatch as UnknownPatch
    from workflow_engine.errors import UnknownWorkflow as UnknownWorkflow
    from workflow_engine.errors import UnresolvedAnnotation as UnresolvedAnnotation
    from workflow_engine.errors import UnsupportedType as UnsupportedType
    from workflow_engine.errors import WaitsForItself as WaitsForItself
    from workflow_engine.errors import WaitTimeout as WaitTimeout
    from workflow_engine.errors import WakeFailed as WakeFailed
    from workflow_engine.errors import WorkflowCancelled as WorkflowCancelled
    from workflow_engine.errors import WorkflowError as WorkflowError
    from workflow_engine.errors import WorkflowFailed as WorkflowFailed
    from workflow_engine.runtime.collector import Collected as Collected
    from workflow_engine.runtime.current import CurrentStep as CurrentStep
    from workflow_engine.runtime.current import current_step as current_step
    from workflow_engine.runtime.doctor import Finding as Finding
    from workflow_engine.runtime.engine import Engine as Engine
    from workflow_engine.runtime.handle import Handle as Handle
    from workflow_engine.runtime.options import RunOptions as RunOptions
    from workflow_engine.runtime.registry import Workflow as Workflow
    from workflow_engine.runtime.registry import workflow as workflow
    from workflow_engine.runtime.resume import Worker as Worker
    from workflow_engine.runtime.summary import PassSummary as PassSummary
    from workflow_engine.runtime.views import AwakeableView as AwakeableView
    from workflow_engine.runtime.views import ChildView as ChildView
    from workflow_engine.runtime.views import Description as Description
    from workflow_engine.runtime.views import JournalEntry as JournalEntry
    from workflow_engine.runtime.views import Page as Page
    from workflow_engine.runtime.views import TimerView as TimerView
    from workflow_engine.store.schema import (
        exclude_workflow_tables as exclude_workflow_tables,
    )
    from workflow_engine.wake.awakeable import awakeable as awakeable
    from workflow_engine.wake.child import cancel_child as cancel_child
    from workflow_engine.wake.child import spawn_child as spawn_child
    from workflow_engine.wake.message import receive as receive
    from workflow_engine.wake.sleep import sleep as sleep
    from workflow_engine.wake.sleep import sleep_until as sleep_until

_HOMES: dict[str, str] = {
    "AllOf": "core.compounds",
    "AnyOf": "core.compounds",
    "AuthorError": "errors",
    "Await": "core.waits",
    "Awakeable": "core.waits",
    "AwakeableCancelled": "errors",
    "AwakeableNotFound": "errors",
    "AwakeableRejected": "errors",
    "AwakeableStatus": "core.rows",
    "AwakeableView": "runtime.views",
    "CancelRequested": "errors",
    "Cancelled": "core.outcome",
    "Child": "core.waits",
    "ChildCancelled": "errors",
    "ChildFailed": "errors",
    "ChildOwned": "errors",
    "ChildView": "runtime.views",
    "Collectable": "core.collecting",
    "Collected": "runtime.collector",
    "Command": "core.commands",
    "Completed": "core.outcome",
    "ContinueAsNew": "core.commands",
    "ContinuedAsNew": "core.outcome",
    "CurrentGeneration": "core.commands",
    "CurrentStep": "runtime.current",
    "CurrentWorkflow": "core.commands",
    "DeadlineExceeded": "errors",
    "Description": "runtime.views",
    "DuplicateStepName": "errors",
    "DuplicateWorkflow": "errors",
    "EmptyCompound": "errors",
    "Ending": "core.outcome",
    "Engine": "runtime.engine",
    "EngineClosed": "errors",
    "EngineError": "errors",
    "EntryNotFound": "errors",
    "Every": "core.snapshots",
    "Failed": "core.outcome",
    "FaultKind": "core.faults",
    "Finding": "runtime.doctor",
    "ForgottenYieldFrom": "errors",
    "FreshOrdinal": "core.commands",
    "Handle": "runtime.handle",
    "IgnoredCancellation": "errors",
    "IllegalMove": "errors",
    "IllegalRotation": "errors",
    "InputConflict": "errors",
    "InstanceExists": "errors",
    "InstanceNotFound": "errors",
    "InvalidDuration": "errors",
    "InvalidInput": "errors",
    "InvalidName": "errors",
    "JournalAppendError": "errors",
    "JournalDecodeError": "errors",
    "JournalEncodeError": "errors",
    "JournalEntry": "runtime.views",
    "LeaseHeld": "errors",
    "LeaseLost": "errors",
    "MapFailed": "errors",
    "MapResult": "core.mapping",
    "MigrationLocked": "errors",
    "NameKindMismatch": "errors",
    "Never": "core.snapshots",
    "NonRetryable": "errors",
    "NotACommand": "errors",
    "NotAWorkflow": "errors",
    "OnTerminal": "core.snapshots",
    "Page": "runtime.views",
    "PassSummary": "runtime.summary",
    "Patch": "core.commands",
    "Receive": "core.waits",
    "RequestError": "errors",
    "ResultTimeout": "errors",
    "ResurrectAmbiguous": "errors",
    "RetryAfter": "errors",
    "RetryPolicy": "core.retry",
    "RunOptions": "runtime.options",
    "SchemaOutOfDate": "errors",
    "SchemaTooNew": "errors",
    "Send": "core.waits",
    "Status": "core.lifecycle",
    "Step": "core.commands",
    "StepDecodeError": "errors",
    "StepFailed": "errors",
    "StepTimeout": "errors",
    "StoreRefused": "errors",
    "StoreUnavailable": "errors",
    "Suspended": "core.outcome",
    "TimerView": "runtime.views",
    "Transaction": "core.transaction",
    "UnknownPatch": "errors",
    "UnknownWorkflow": "errors",
    "UnresolvedAnnotation": "errors",
    "UnsupportedType": "errors",
    "WaitTimeout": "errors",
    "WaitsForItself": "errors",
    "WakeFailed": "errors",
    "Worker": "runtime.resume",
    "Workflow": "runtime.registry",
    "WorkflowBody": "core.commands",
    "WorkflowCancelled": "errors",
    "WorkflowError": "errors",
    "WorkflowFailed": "errors",
    "awakeable": "wake.awakeable",
    "cancel_child": "wake.child",
    "current_step": "runtime.current",
    "exclude_workflow_tables": "store.schema",
    "map_each": "core.mapping",
    "receive": "wake.message",
    "restore_seed": "core.commands",
    "sleep": "wake.sleep",
    "sleep_until": "wake.sleep",
    "spawn_child": "wake.child",
    "workflow": "runtime.registry",
}
"""Where each public name lives, below this package."""

__all__ = [
    "AllOf",
    "AnyOf",
    "AuthorError",
    "Await",
    "Awakeable",
    "AwakeableCancelled",
    "AwakeableNotFound",
    "AwakeableRejected",
    "AwakeableStatus",
    "AwakeableView",
    "CancelRequested",
    "Cancelled",
    "Child",
    "ChildCancelled",
    "ChildFailed",
    "ChildOwned",
    "ChildView",
    "Collectable",
    "Collected",
    "Command",
    "Completed",
    "ContinueAsNew",
    "ContinuedAsNew",
    "CurrentGeneration",
    "CurrentStep",
    "CurrentWorkflow",
    "DeadlineExceeded",
    "Description",
    "DuplicateStepName",
    "DuplicateWorkflow",
    "EmptyCompound",
    "Ending",
    "Engine",
    "EngineClosed",
    "EngineError",
    "EntryNotFound",
    "Every",
    "Failed",
    "FaultKind",
    "Finding",
    "ForgottenYieldFrom",
    "FreshOrdinal",
    "Handle",
    "IgnoredCancellation",
    "IllegalMove",
    "IllegalRotation",
    "InputConflict",
    "InstanceExists",
    "InstanceNotFound",
    "InvalidDuration",
    "InvalidInput",
    "InvalidName",
    "JournalAppendError",
    "JournalDecodeError",
    "JournalEncodeError",
    "JournalEntry",
    "LeaseHeld",
    "LeaseLost",
    "MapFailed",
    "MapResult",
    "MigrationLocked",
    "NameKindMismatch",
    "Never",
    "NonRetryable",
    "NotACommand",
    "NotAWorkflow",
    "OnTerminal",
    "Page",
    "PassSummary",
    "Patch",
    "Receive",
    "RequestError",
    "ResultTimeout",
    "ResurrectAmbiguous",
    "RetryAfter",
    "RetryPolicy",
    "RunOptions",
    "SchemaOutOfDate",
    "SchemaTooNew",
    "Send",
    "Status",
    "Step",
    "StepDecodeError",
    "StepFailed",
    "StepTimeout",
    "StoreRefused",
    "StoreUnavailable",
    "Suspended",
    "TimerView",
    "Transaction",
    "UnknownPatch",
    "UnknownWorkflow",
    "UnresolvedAnnotation",
    "UnsupportedType",
    "WaitTimeout",
    "WaitsForItself",
    "WakeFailed",
    "Worker",
    "Workflow",
    "WorkflowBody",
    "WorkflowCancelled",
    "WorkflowError",
    "WorkflowFailed",
    "awakeable",
    "cancel_child",
    "current_step",
    "exclude_workflow_tables",
    "map_each",
    "receive",
    "restore_seed",
    "sleep",
    "sleep_until",
    "spawn_child",
    "workflow",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
