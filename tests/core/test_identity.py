"""What may be a name."""

from __future__ import annotations

import unicodedata

import pytest

from workflow_engine.core.identity import (
    MAX_LENGTH,
    RESERVED_PREFIXES,
    check_name,
    check_step_name,
)
from workflow_engine.errors import InvalidName


@pytest.mark.parametrize(
    "name",
    ["a", "a-b", "a:b", "a#1", "a/b", "日本", "🙂", "a b", "%", "x" * MAX_LENGTH],
)
def test_any_other_character_is_fine(name: str) -> None:
    assert check_name(name, "workflow id") == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        (" ", "empty"),
        ("\u2003", "empty"),
        (None, "NoneType, not str"),
        (7, "int, not str"),
        (b"a", "bytes, not str"),
        ("x" * (MAX_LENGTH + 1), "256 characters"),
        ("x" * 10_240, "10240 characters"),
        ("a\nb", "control character"),
        ("a\x00", "control character"),
        ("a\x7f", "control character"),
        ("\ud800", "half of a character"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: object, problem: str) -> None:
    with pytest.raises(InvalidName, match=problem) as caught:
        check_name(name, "workflow id")
    assert isinstance(caught.value, ValueError)
    assert "workflow id" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_names_that_are_equal_only_after_normalisation_stay_different() -> None:
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")
    assert check_name(composed, "id") != check_name(decomposed, "id")


@pytest.mark.parametrize("prefix", RESERVED_PREFIXES)
def test_steps_may_not_use_the_names_of_the_engine(prefix: str) -> None:
    with pytest.raises(InvalidName, match="belong to the engine"):
        check_step_name(f"{prefix}x")
