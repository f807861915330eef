"""Calls step functions and turns what they do into outcomes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import GeneratorType
from typing import Any

from workflow_engine.core.commands import Step
from workflow_engine.core.context import Context
from workflow_engine.core.failure import capture
from workflow_engine.core.outcome import Error, Outcome, Value
from workflow_engine.errors import ForgottenYieldFrom
from workflow_engine.runtime.current import CURRENT, CurrentStep
from workflow_engine.runtime.points import ProcessDied


def perform(step: Step[Any], current: CurrentStep, context: Context) -> Outcome:
    """Call the function; its result or failure, encoded and checked.

    An async function runs to its end on an event loop of its own. KeyboardInterrupt
    goes through; everything else the function raises is its failure.
    """
    token = CURRENT.set(current)
    try:
        result = step.function(*step.args, **step.kwargs)
        if inspect.iscoroutine(result):
            result = _run_to_its_end(result)
        if isinstance(result, GeneratorType):
            raise ForgottenYieldFrom(
                workflow=context.workflow,
                where=f"step {step.name!r}",
                found=result.__name__,
            )
        where = f"step {step.name!r}"
        return Value(context.encode(result, step.result_type, where))
    except (KeyboardInterrupt, ProcessDied):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the step failed
        return Error(capture(error, step))
    finally:
        CURRENT.reset(token)


def _run_to_its_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run on a loop of its own: in a thread of its own if this one runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    here = copy_context()
    with ThreadPoolExecutor(1, "workflow-engine-step") as thread:
        return thread.submit(here.run, asyncio.run, coroutine).result()
