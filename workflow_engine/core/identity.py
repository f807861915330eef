"""Names and ids: what may be one, and which names the engine keeps for itself.

Frozen: the reserved names and prefixes below are stored in journals. They are never
changed, only added to.
"""

from __future__ import annotations

import re
import unicodedata

from workflow_engine.errors import InvalidName

MAX_LENGTH = 255
"""Characters in a workflow name, a workflow id, a step name or a patch id."""

COMPLETED = "__workflow_completed__"
CANCELLED = "__workflow_cancelled__"
FAILED = "__workflow_failed__"
CONTINUED_AS_NEW = "__workflow_continued_as_new__"
SEED = "__workflow_seed__"
CANCEL_REQUESTED = "__workflow_cancel_requested__"

PATCH_PREFIX = "patch:"
SLEEP_PREFIX = "sleep:"
AWAKEABLE_PREFIX = "awk:"
AWAKEABLE_ID_PREFIX = "awkid:"
CHILD_PREFIX = "child:"
CHILD_ID_PREFIX = "childid:"
CHILD_CANCEL_PREFIX = "childcancel:"
MESSAGE_PREFIX = "message:"
MESSAGE_SEND_PREFIX = "messagesend:"
TIMEOUT_PREFIX = "timeout:"
ATTEMPT_PREFIX = "stepattempt:"
RETRY_PREFIX = "stepretry:"

RESERVED_PREFIXES = (
    "__workflow_",
    SLEEP_PREFIX,
    AWAKEABLE_PREFIX,
    AWAKEABLE_ID_PREFIX,
    CHILD_PREFIX,
    CHILD_ID_PREFIX,
    CHILD_CANCEL_PREFIX,
    PATCH_PREFIX,
    MESSAGE_PREFIX,
    MESSAGE_SEND_PREFIX,
    TIMEOUT_PREFIX,
    ATTEMPT_PREFIX,
    RETRY_PREFIX,
)
"""Step names of users may not begin with one of these."""


_NUMBER = re.compile(r"([0-9]+\.[0-9]+/)*[0-9]+")
"""What the engine calls what has no name: a path of branches, and a count."""


def check_name(name: object, what: str) -> str:
    """Return ``name`` if it can be stored and shown as a ``what``.

    Text of 1 to 255 characters, not blank, without control characters or lone
    surrogates. Nothing is normalised: names that differ in a code point are different.

    Raises:
        InvalidName: naming the rule that was broken.
    """
    if not isinstance(name, str):
        raise InvalidName(
            name=repr(name),
            what=what,
            problem=f"it is a {type(name).__name__}, not str",
        )
    problem = _find_problem(name)
    if problem is not None:
        shown = repr(name) if len(name) <= 80 else f"{name[:77]!r}..."
        raise InvalidName(name=shown, what=what, problem=problem)
    return name


def check_step_name(name: object) -> str:
    """Return ``name`` if an author may use it for a step or an await.

    Raises:
        InvalidName: as `check_name`, and for names the engine keeps for itself.
    """
    text = check_name(name, "step name")
    for prefix in RESERVED_PREFIXES:
        if text.startswith(prefix):
            raise InvalidName(
                name=repr(text),
                what="step name",
                problem=f"names beginning with {prefix!r} belong to the engine",
            )
    return text


def check_own_name(name: str | None, prefix: str, what: str) -> str | None:
    """Return the name an author gave to what would be numbered without one.

    Args:
        prefix: what is put before it in the journal.

    Raises:
        InvalidName: as `check_name`, and for such numbers.
    """
    if name is None:
        return None
    check_name(name, what)
    check_name(prefix + name, what)
    if _NUMBER.fullmatch(name):
        raise InvalidName(
            name=repr(name),
            what=what,
            problem="those without a name are numbered so; put a word before it",
        )
    return name


def _find_problem(name: str) -> str | None:
    if not name or name.isspace():
        return "it is empty"
    if len(name) > MAX_LENGTH:
        return f"it has {len(name)} characters, at most {MAX_LENGTH} are allowed"
    if name.isprintable():
        return None
    for character in name:
        category = unicodedata.category(character)
        if category == "Cc":
            return f"it holds the control character {character!r}"
        if category == "Cs":
            return f"it holds {character!r}, half of a character"
    return None
