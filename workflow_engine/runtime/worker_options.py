"""How a worker behaves, checked when it is made."""

from __future__ import annotations

from datetime import timedelta

import attrs

from workflow_engine.core.durations import microseconds
from workflow_engine.runtime.retention import Rule


@attrs.frozen(kw_only=True)
class WorkerOptions:
    """How a worker behaves; durations in microseconds.

    Attributes:
        concurrency: runs at the same time, each in a thread.
        max_attempts: crashes in a row before an instance fails.
        max_takeovers: expired leases in a row before an instance fails.
        lease: how long a claim is good without renewal.
        poll: how long to wait before looking again when nothing was found.
        grace: how long a stopping worker waits for steps that are running.
        shun: how long an instance is left alone by this worker when it has an unknown
            patch, its run broke off, or it is broken.
        retention: what it collects, and when.
        listen: whether it hears of what other processes do before its next poll.
    """

    concurrency: int
    max_attempts: int
    max_takeovers: int
    lease: int
    poll: int
    grace: int
    shun: int = 10_000_000
    listen: bool = True
    retention: tuple[Rule, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        lease: timedelta | float,
        poll: timedelta | float,
        grace: timedelta | float,
        listen: bool,
        retention: tuple[Rule, ...],
        **counts: int,
    ) -> WorkerOptions:
        """Options as `Engine.worker` takes them.

        Raises:
            ValueError: a count below 1, or a duration that is none.
        """
        for name, count in counts.items():
            if type(count) is not int or count < 1:
                raise ValueError(
                    f"{name} must be a whole number above 0, not {count!r}"
                )
        options = cls(
            **counts,
            lease=microseconds(lease, "lease"),
            poll=microseconds(poll, "poll"),
            grace=microseconds(grace, "grace"),
            listen=listen,
            retention=retention,
        )
        if options.lease < 1:
            raise ValueError("lease must be longer than nothing")
        return options
