"""Writes the table and the drawing of ``docs/lifecycle.md`` from the table of moves.

Run ``python docs/lifecycle.py`` after a change in `workflow_engine.core.lifecycle`; a
test holds the page equal.
"""

from __future__ import annotations

from pathlib import Path

from workflow_engine.core.lifecycle import MOVES, Event, Status

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- begin: moves -->\n", "<!-- end: moves -->\n"


def table() -> str:
    """A row an event, a column a status; empty where the move is illegal."""
    head = ["event", *Status]
    rows = [head, ["---"] * len(head)]
    for event in Event:
        moves = (MOVES.get((status, event), "") for status in Status)
        rows.append([event.value, *moves])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def drawing() -> str:
    """The moves that change the status, as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {Status.RUNNING}: start"]
    pairs: dict[tuple[Status, Status], list[str]] = {}
    for (before, event), after in MOVES.items():
        if before is not after:
            pairs.setdefault((before, after), []).append(event.value)
    for (before, after), events in sorted(pairs.items()):
        lines.append(f"    {before} --> {after}: {', '.join(sorted(events))}")
    return "".join(f"{line}\n" for line in ["```mermaid", *lines, "```"])


def refreshed(page: str) -> str:
    """The page with what lies between the two comments written anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{drawing()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))
