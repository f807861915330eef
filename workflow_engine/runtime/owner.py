"""Who holds a lease, in a form that tells whether they are dead.

An owner is ``host:pid:boot:namespace:started:nonce``. On the same machine, boot and PID
namespace, a process that does not exist, or began at another time, is provably dead,
and its leases need not run out. Everywhere else only time tells. The facts come from
Linux's ``/proc``; without it, an owner is never provably dead.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

import attrs

_UNKNOWN = "-"


@attrs.frozen
class Owner:
    """One engine in one process."""

    host: str
    pid: int
    boot: str
    namespace: str
    started: str
    nonce: str

    @classmethod
    def here(cls) -> Owner:
        """A new owner in this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname().replace(":", "_"),
            pid=pid,
            boot=_boot(),
            namespace=_namespace(),
            started=_started(pid) or _UNKNOWN,
            nonce=secrets.token_hex(4),
        )

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """An owner from its text; None if it is not one of ours."""
        parts = text.split(":")
        if len(parts) != 6 or not parts[1].isdigit():
            return None
        host, pid, boot, namespace, started, nonce = parts
        return cls(host, int(pid), boot, namespace, started, nonce)

    def __str__(self) -> str:
        fields = attrs.astuple(self)
        return ":".join(str(field) for field in fields)

    def is_provably_dead(self) -> bool:
        """Whether this owner's process ended, as far as this machine can prove."""
        facts = (self.boot, self.namespace, self.started)
        if _UNKNOWN in facts or (self.boot, self.namespace) != (_boot(), _namespace()):
            return False
        return _started(self.pid) != self.started


def is_provably_dead(owner: str) -> bool:
    """`Owner.is_provably_dead` for an owner's text."""
    parsed = Owner.parse(owner)
    return parsed is not None and parsed.is_provably_dead()


def shown(owner: str) -> str:
    """An owner as people want to read it: ``host pid 123``."""
    parsed = Owner.parse(owner)
    return owner if parsed is None else f"{parsed.host} pid {parsed.pid}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


def _namespace() -> str:
    try:
        link = os.readlink("/proc/self/ns/pid")
    except OSError:
        return _UNKNOWN
    return link.partition("[")[2].rstrip("]") or _UNKNOWN


def _started(pid: int) -> str | None:
    """When a process began, in clock ticks since boot; None if there is none.

    A zombie counts as ended: it runs nothing any more.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _UNKNOWN
    # The second field is the command in parentheses, and may hold anything.
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else started
