"""Makes a process die at a named point, in a test.

::

    crashes = Crashes().at("after_step", "charge")
    engine = Engine(url, workflows=[order], points=crashes)
    with pytest.raises(ProcessDied):
        engine.run(order, "1")        # the effect happened, its outcome is not recorded

A simulated death cleans nothing up: leases stay held until they run out. With
``kill=True`` the process really dies, by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import threading

from workflow_engine.runtime.points import Point, Points, ProcessDied

__all__ = ["Crashes", "Point", "ProcessDied"]


class Crashes(Points):
    """Points at which the process dies, each once.

    Attributes:
        reached: every point passed or died at, in order, as (point, subject).
    """

    def __init__(self) -> None:
        self.reached: list[tuple[Point, str]] = []
        self._planned: list[tuple[Point, str | None, int, bool]] = []
        self._lock = threading.Lock()

    def at(
        self,
        point: Point,
        subject: str | None = None,
        *,
        nth: int = 1,
        kill: bool = False,
    ) -> Crashes:
        """Die when ``point`` is reached for the ``nth`` time from now.

        Args:
            subject: the step's name, or the kind of commit: append, park, finish,
                rotate, fail, crash, block. Any by default.
            kill: end the process by SIGKILL instead of raising `ProcessDied`.
        """
        if nth < 1:
            raise ValueError(f"nth counts from 1, not {nth}")
        with self._lock:
            self._planned.append((point, subject, nth, kill))
        return self

    def reach(self, point: Point, subject: str) -> None:
        """Called by the engine."""
        with self._lock:
            self.reached.append((point, subject))
            kill = self._is_due(point, subject)
        if kill is None:
            return
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise ProcessDied(f"at {point} of {subject!r}")

    def _is_due(self, point: Point, subject: str) -> bool | None:
        for index, (wanted, only, nth, kill) in enumerate(self._planned):
            if wanted != point or only not in (None, subject):
                continue
            if nth == 1:
                del self._planned[index]
                return kill
            self._planned[index] = (wanted, only, nth - 1, kill)
        return None
