"""Ids are frozen: the vectors in tests/golden may only be added to."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_engine.core.ids import (
    entry_id,
    idempotency_key,
    joined,
    parted,
    stream_name,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "ids.json").read_text())


@pytest.mark.parametrize("vector", GOLDEN["entry_ids"])
def test_entry_ids_never_change(vector: dict[str, Any]) -> None:
    parts = vector["workflow"], vector["id"], vector["generation"], vector["key"]
    assert entry_id(*parts) == vector["entry_id"]


@pytest.mark.parametrize(
    "vector", [v for v in GOLDEN["entry_ids"] if v["agrees_with_reference"]]
)
def test_entry_ids_without_special_characters_agree_with_the_reference(
    vector: dict[str, Any],
) -> None:
    name = "keiro:workflow:{workflow}:{id}:{generation}:{key}".format_map(vector)
    assert str(uuid5(NAMESPACE_URL, name)) == vector["entry_id"]


@pytest.mark.parametrize("vector", GOLDEN["idempotency_keys"])
def test_idempotency_keys_never_change(vector: dict[str, Any]) -> None:
    arguments = {name: value for name, value in vector.items() if name != "key"}
    assert idempotency_key(**arguments) == vector["key"]


parts = st.text(alphabet=":%3Aa-", max_size=4)


@given(
    st.sets(st.tuples(parts, parts, st.integers(0, 2), parts), min_size=2, max_size=6)
)
def test_different_identities_have_different_entry_ids(identities: Any) -> None:
    for one, other in combinations(identities, 2):
        assert entry_id(*one) != entry_id(*other)


@given(st.lists(parts, min_size=1, max_size=4))
def test_parts_are_found_again_in_their_text(parts: list[str]) -> None:
    assert parted(joined(*parts)) == parts


def test_a_step_that_was_superseded_gets_an_id_of_its_own() -> None:
    first = entry_id("w", "1", 0, "charge")
    second = entry_id("w", "1", 0, "charge", superseded=1)
    assert first != second
    assert second != entry_id("w", "1", 0, "charge:1")


def test_the_stream_name_is_for_display_and_may_clash() -> None:
    assert stream_name("a-b", "c", 0) == "wf:a-b-c" == stream_name("a", "b-c", 0)
    assert stream_name("w", "1", 2) == "wf:w-1#2"
