"""Rows as the code of each revision writes them, for tests of later revisions.

Append only. A new revision adds an entry to `ROWS` with every column it knows; the
tests then hold every later revision to keeping those rows, and to letting the older
code write them as long as `OLDEST_CODE` says that it may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Rows: TypeAlias = Mapping[str, list[dict[str, Any]]]

MOMENT = 1_790_000_000_123_456

_INSTANCE_0001: dict[str, Any] = {
    "id": 7,
    "workflow_name": "order-fulfilment",
    "workflow_id": "order-1001 \u2603",
    "incarnation": "0123456789abcdef0123456789abcdef",
    "status": "suspended",
    "generation": 2,
    "position": 2,
    "epoch": 9,
    "lease_owner": "worker-1",
    "lease_until": MOMENT + 60_000_000,
    "runnable_at": MOMENT + 1,
    "attempts": 3,
    "takeovers": 1,
    "next_attempt_at": MOMENT + 2,
    "wake_after": MOMENT + 3,
    "cancel_requested": True,
    "patches": '["faster"]',
    "input": '{"order":{"id":1001}}',
    "result": None,
    "last_error": '{"type":"ValueError"}',
    "created_at": MOMENT,
    "updated_at": MOMENT + 4,
    "ended_at": None,
}
_JOURNAL_0001: list[dict[str, Any]] = [
    {
        "instance_id": 7,
        "generation": 2,
        "position": 1,
        "kind": "step_ok",
        "step_name": "reserve",
        "live": True,
        "format": 1,
        "payload": '{"n":1}',
        "recorded_at": MOMENT,
        "entry_id": "3f2b0c1e-0000-5000-8000-000000000001",
    },
    {
        "instance_id": 7,
        "generation": 2,
        "position": 2,
        "kind": "attempt",
        "step_name": None,
        "live": False,
        "format": 1,
        "payload": None,
        "recorded_at": MOMENT + 1,
        "entry_id": "3f2b0c1e-0000-5000-8000-000000000002",
    },
]
_SNAPSHOT_0001: dict[str, Any] = {
    "instance_id": 7,
    "generation": 2,
    "position": 1,
    "discriminator": "1",
    "entries": "[]",
    "written_at": MOMENT,
}

_WAITING_0003: Rows = {
    "wf_timers": [
        {
            "instance_id": 7,
            "generation": 2,
            "step_name": "sleep:cool-off",
            "due_at": MOMENT + 3,
            "created_at": MOMENT,
            "settled_at": None,
        }
    ],
    "wf_awakeables": [
        {
            "id": "0123456789abcdef0123456789abcdef",
            "instance_id": 7,
            "generation": 2,
            "label": "approval",
            "status": "resolved",
            "payload": '{"ok":true}',
            "created_at": MOMENT,
            "settled_at": MOMENT + 5,
        }
    ],
    "wf_children": [
        {
            "parent_id": 7,
            "generation": 2,
            "step_name": "child:ship:ship-7",
            "child_id": 8,
            "created_at": MOMENT,
        }
    ],
}

ROWS: Mapping[str, Rows] = {
    "0001": {
        "wf_instances": [_INSTANCE_0001],
        "wf_journal": _JOURNAL_0001,
        "wf_snapshots": [_SNAPSHOT_0001],
    },
    "0002": {
        "wf_instances": [_INSTANCE_0001 | {"tags": '{"team":"blue"}'}],
        "wf_journal": _JOURNAL_0001,
        "wf_snapshots": [_SNAPSHOT_0001],
    },
    "0003": {
        "wf_instances": [_INSTANCE_0001 | {"tags": "{}", "waits_on": '["go"]'}],
        "wf_journal": _JOURNAL_0001,
        "wf_snapshots": [_SNAPSHOT_0001],
        **_WAITING_0003,
    },
    "0004": {
        "wf_instances": [
            _INSTANCE_0001
            | {"tags": "{}", "waits_on": '["go"]', "deadline_at": MOMENT + 6}
        ],
        "wf_journal": _JOURNAL_0001,
        "wf_snapshots": [_SNAPSHOT_0001],
        **_WAITING_0003,
        "wf_messages": [
            {
                "id": 3,
                "instance_id": 7,
                "message_key": "m-1",
                "topic": "word",
                "payload": '{"n":2}',
                "sent_at": MOMENT,
            }
        ],
    },
}

ADDED: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # What each revision puts into the rows that were there: table, column, value.
    "0001": {},
    "0002": {"wf_instances": {"tags": "{}"}},
    "0003": {"wf_instances": {"waits_on": None}},
    "0004": {"wf_instances": {"deadline_at": None}},
}
