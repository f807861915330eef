"""Instruments for tests: a clock that tests move, and named crash points."""

from workflow_engine.testing.clock import TestClock
from workflow_engine.testing.crashes import Crashes, ProcessDied

__all__ = ["Crashes", "ProcessDied", "TestClock"]
