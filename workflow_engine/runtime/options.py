"""Options of runs, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from workflow_engine.core.identity import check_name
from workflow_engine.core.retry import RetryPolicy
from workflow_engine.core.snapshots import Never, SnapshotPolicy


def _patch_ids(ids: Iterable[str]) -> frozenset[str]:
    if isinstance(ids, str):
        raise TypeError(f"a set of patch ids is needed, not the text {ids!r}")
    return frozenset(check_name(patch, "patch id") for patch in ids)


def _positive(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{attribute.name} must be a whole number above 0: {value!r}")


@attrs.frozen(kw_only=True)
class RunOptions:
    """How runs behave.

    Attributes:
        snapshot_policy: when to keep a snapshot of the journal.
        page_size: journal rows fetched at a time.
        active_patches: ids of `Patch` that generations claimed from now on answer True.
        retired_patches: ids this code no longer asks for, but whose instances it can
            still run. An instance whose patch set names an id that is in neither is
            left for code that knows it.
        max_payload_bytes: the largest input, result, seed or step result, encoded.
        retry: how steps are tried again that say nothing themselves. By default not at
            all: what they raise is thrown into the body.
        steps_in_flight: steps that one run performs at a time at most, each in a
            thread.
        follow: whether `Engine.run` goes on into the next generation.
    """

    snapshot_policy: SnapshotPolicy = attrs.field(factory=Never)
    page_size: int = attrs.field(default=100, validator=_positive)
    active_patches: frozenset[str] = attrs.field(
        default=frozenset(), converter=_patch_ids
    )
    retired_patches: frozenset[str] = attrs.field(
        default=frozenset(), converter=_patch_ids
    )
    max_payload_bytes: int = attrs.field(default=4 * 2**20, validator=_positive)
    retry: RetryPolicy | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.instance_of(RetryPolicy)),
    )
    steps_in_flight: int = attrs.field(default=32, validator=_positive)
    follow: bool = True

    def unknown_patches(self, patches: frozenset[str] | None) -> frozenset[str]:
        """The ids of an instance's patch set that this code does not know."""
        return (patches or frozenset()) - self.active_patches - self.retired_patches
