"""Calls step functions and turns what they do into outcomes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import GeneratorType
from typing import Any

from workflow_engine.core.attempts import record_attempt
from workflow_engine.core.commands import Step
from workflow_engine.core.context import Context
from workflow_engine.core.failure import capture
from workflow_engine.core.outcome import Again, Error, Outcome, Value
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.errors import ForgottenYieldFrom, StepTimeout
from workflow_engine.runtime.current import CURRENT, CurrentStep
from workflow_engine.runtime.points import ProcessDied


def perform(
    step: Step[Any],
    current: CurrentStep,
    context: Context,
    policy: RetryPolicy | None = None,
    attempt: int = 1,
) -> Outcome:
    """Call the function; its result or failure, encoded and checked.

    An async function runs to its end, or to its timeout, on an event loop of its own.
    KeyboardInterrupt goes through; everything else the function raises is its failure.

    Args:
        policy: says whether a failure is tried again.
        attempt: which one this is, as the policy counts, from 1.
    """
    try:
        return Value(call(step, current, context))
    except (KeyboardInterrupt, ProcessDied):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the step failed
        return failed(step, error, current, policy, attempt)


def call(step: Step[Any], current: CurrentStep, context: Context, *given: Any) -> str:
    """Call the function, with ``given`` before its own arguments; its encoded result.

    Raises:
        BaseException: whatever the function raises, or why its result is no good.
    """
    token = CURRENT.set(current)
    try:
        result = step.function(*given, *step.args, **step.kwargs)
        if inspect.iscoroutine(result):
            result = _run_to_its_end(_limited(result, step))
        where = f"step {step.name!r}"
        if isinstance(result, GeneratorType):
            raise ForgottenYieldFrom(
                workflow=context.workflow, where=where, found=result.__name__
            )
        return context.encode(result, step.result_type, where)
    finally:
        CURRENT.reset(token)


def failed(
    step: Step[Any],
    error: BaseException,
    current: CurrentStep,
    policy: RetryPolicy | None,
    attempt: int,
) -> Outcome:
    """What comes of an error: the end of the step, or a pause and another attempt."""
    record = capture(error, step)
    if policy is None:
        return Error(record)
    try:
        pause = policy.pause_after(attempt, error, current.idempotency_key)
    except Exception as wrong:  # noqa: BLE001 - the author's ``retry_if``, or a delay
        wrong.__context__ = error
        return Error(capture(wrong, step), is_final=True)
    if pause is None:
        return Error(record, is_final=True)
    return Again(record_attempt(record, pause))


def timed_out(step: Step[Any]) -> StepTimeout:
    """The error of a step whose time is up."""
    return StepTimeout(step=step.name, seconds=(step.limit or 0) / 1e6)


async def _limited(coroutine: Coroutine[Any, Any, Any], step: Step[Any]) -> Any:
    if step.limit is None:
        return await coroutine
    over = asyncio.timeout(step.limit / 1e6)
    try:
        async with over:
            return await coroutine
    except TimeoutError:
        if over.expired():
            raise timed_out(step) from None
        raise


def _run_to_its_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run on a loop of its own: in a thread of its own if this one runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    here = copy_context()
    with ThreadPoolExecutor(1, "workflow-engine-step") as thread:
        return thread.submit(here.run, asyncio.run, coroutine).result()
