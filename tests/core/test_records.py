"""The engine's own records as JSON: strict, and open to what later code adds."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from workflow_engine.core import records
from workflow_engine.core.failure import (
    AuthorFailure,
    DeclaredFailure,
    FailureRecord,
    Reason,
)
from workflow_engine.core.journal import FORMAT, Entry, Kind, Prefix
from workflow_engine.errors import ValueProblem

OK = Entry(1, Kind.STEP_OK, "a", '{"x":1}', True)
LATER = Entry(2, "dreamt", None, None, False, FORMAT + 1)
TOLD = {"type": "KeyError", "message": "'x' é", "traceback": "at\n"}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            Prefix((OK, LATER), 3, {"a": 1}),
            '{"entries":[[1,"step_ok","a","{\\"x\\":1}",true,1],'
            '[2,"dreamt",null,null,false,2]],"position":3,"superseded":{"a":1}}',
        ),
        (
            FailureRecord(**TOLD),
            '{"type":"KeyError","message":"\'x\' \\u00e9","traceback":"at\\n"}',
        ),
        (
            DeclaredFailure("T", "m", "", "module:T", [1, [None]]),
            '{"type":"T","message":"m","traceback":"","declared":"module:T",'
            '"args":[1,[null]]}',
        ),
        (
            AuthorFailure("T", "m", "", "T", {"a": 1}),
            '{"type":"T","message":"m","traceback":"","author":"T","facts":{"a":1}}',
        ),
        (
            Reason("T: m", "T", "m", "", None),
            '{"reason":"T: m","type":"T","message":"m","traceback":"","entry":null}',
        ),
    ],
)
def test_how_each_record_is_written_is_frozen(
    record: attrs.AttrsInstance, text: str
) -> None:
    assert records.write(record) == text
    assert records.read(text, type(record)) == record


def test_a_prefix_comes_back_as_it_was() -> None:
    back = records.read(records.write(Prefix((OK,), 5, {})), Prefix)
    assert (type(back.entries), type(back.superseded)) == (tuple, dict)


def test_an_entry_of_an_unknown_kind_or_version_stays_what_it_is() -> None:
    for later in (LATER, attrs.evolve(OK, kind="x"), attrs.evolve(OK, format=2)):
        back = records.read_entry(records.write_entry(later))
        assert back == later
        assert not back.is_known
        assert back.answers


@pytest.mark.parametrize(
    "plain",
    [
        None,
        {},
        [],
        [1, "step_ok", "a", "1", True],
        [1, "step_ok", "a", "1", True, 1, 1],
        [1.0, "step_ok", "a", "1", True, 1],
        [True, "step_ok", "a", "1", True, 1],
        [1, None, "a", "1", True, 1],
        [1, "step_ok", 1, "1", True, 1],
        [1, "step_ok", "a", {}, True, 1],
        [1, "step_ok", "a", "1", 1, 1],
        [1, "step_ok", "a", "1", True, "1"],
    ],
)
def test_what_is_no_entry_is_refused(plain: Any) -> None:
    with pytest.raises(TypeError, match="not the list of an entry"):
        records.read_entry(plain)
    with pytest.raises(ValueProblem) as caught:
        records.read(changed(PREFIX, entries=[[*ENTRY], plain]), Prefix)
    assert caught.value.path == "$.entries[1]"


def changed(record: attrs.AttrsInstance, **fields: Any) -> str:
    return json.dumps(json.loads(records.write(record)) | fields)


def without(record: attrs.AttrsInstance, field: str) -> str:
    fields = json.loads(records.write(record))
    del fields[field]
    return json.dumps(fields)


FAILURE = FailureRecord(**TOLD)
DECLARED = DeclaredFailure(**TOLD, declared="a:B", args=[])
PREFIX = Prefix((OK,), 1, {})
ENTRY = records.write_entry(OK)


@pytest.mark.parametrize(
    ("type_", "text", "path", "found"),
    [
        (Prefix, "nonsense", "$", "not JSON"),
        (Prefix, "[]", "$", "found list"),
        (Prefix, "null", "$", "found None"),
        (Prefix, without(PREFIX, "entries"), "$.entries", "it is missing"),
        (Prefix, without(PREFIX, "superseded"), "$.superseded", "it is missing"),
        (Prefix, changed(PREFIX, position=1.0), "$.position", "found float, not int"),
        (Prefix, changed(PREFIX, position=True), "$.position", "found bool, not int"),
        (Prefix, changed(PREFIX, position="1"), "$.position", "found str, not int"),
        (Prefix, changed(PREFIX, superseded={"a": 1.5}), "$.superseded.a", "not int"),
        (FailureRecord, without(FAILURE, "message"), "$.message", "it is missing"),
        (FailureRecord, changed(FAILURE, type=None), "$.type", "not str"),
        (DeclaredFailure, changed(DECLARED, args="abc"), "$.args", "not list[Any]"),
        (Reason, changed(Reason(), entry=5), "$.entry", "not str"),
    ],
)
def test_nothing_is_converted_and_what_is_wrong_has_a_path(
    type_: type, text: str, path: str, found: str
) -> None:
    with pytest.raises(ValueProblem) as caught:
        records.read(text, type_)
    assert (caught.value.path, caught.value.expected) == (path, type_.__name__)
    assert found in caught.value.problem


def test_what_later_code_adds_to_a_reason_or_a_failure_is_left_out() -> None:
    assert records.read(changed(FAILURE, more=[1]), FailureRecord) == FAILURE
    reason = Reason("r", entry="a")
    assert Reason.decode(changed(reason, more={"x": 1})) == reason
