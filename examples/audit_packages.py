"""Audits installed Python distributions against their RECORD files, resumably.

::

    python examples/audit_packages.py

Every distribution on the path of the interpreter that runs this is one step: each file
that its RECORD gives a hash or a size for is compared with it. Kill the audit whenever
you like; run it again, and it goes on with the distribution it had reached. It ends
with a report, which is also written as JSON.

What the report says of a distribution:

- ``verified``: how many files are as RECORD says. ``__pycache__`` is left out.
- ``changed``: files whose size or content is another.
- ``missing``: files that RECORD lists and that are not there.
- ``unchecked``: files that may not be read, or whose hash this Python cannot compute.
- ``unlisted``: files that no RECORD lists, in the directories beside the metadata that
  the distribution's own RECORD lists files in: its top-level packages. A directory that
  several distributions share, as a namespace package is, belongs to each of them.
- ``record``: False where there is no RECORD to compare with, as for an egg-info.

It exits with 0 if nothing is changed, missing or unchecked, with 1 if something is, and
with 2 if the audit itself could not be done.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import Path

import attrs

from workflow_engine import (
    Completed,
    Engine,
    RunOptions,
    Step,
    WorkflowBody,
    WorkflowError,
    workflow,
)
from workflow_engine.telemetry.events import Event, RunStarted, StepRecorded

# --- what is recorded -----------------------------------------------------------------


@attrs.frozen
class Found:
    """A distribution, as the first step finds it.

    Attributes:
        label: normalised name and version; numbered if they occur more than once.
        metadata: its .dist-info or .egg-info.
        tops: the directories beside the metadata that its RECORD lists files in.
    """

    label: str
    metadata: str
    tops: frozenset[str]


@attrs.frozen
class Audited:
    """What became of one distribution. Paths are relative to where it is installed."""

    distribution: str
    record: bool
    verified: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    unchecked: tuple[str, ...]
    unlisted: tuple[str, ...]


@attrs.frozen
class Totals:
    """Files of all distributions together; how many of those have a RECORD."""

    distributions: int
    with_record: int
    verified: int
    changed: int
    missing: int
    unchecked: int
    unlisted: int


@attrs.frozen
class Report:
    """The result of an audit. Two audits of the same files give equal reports."""

    totals: Totals
    distributions: tuple[Audited, ...]

    @classmethod
    def of(cls, audited: Iterable[Audited]) -> Report:
        """Add up."""
        each = tuple(audited)
        totals = Totals(
            distributions=len(each),
            with_record=sum(one.record for one in each),
            verified=sum(one.verified for one in each),
            changed=sum(len(one.changed) for one in each),
            missing=sum(len(one.missing) for one in each),
            unchecked=sum(len(one.unchecked) for one in each),
            unlisted=sum(len(one.unlisted) for one in each),
        )
        return cls(totals, each)

    @property
    def is_clean(self) -> bool:
        """Whether every file that RECORD vouches for is as it says."""
        return not (self.totals.changed or self.totals.missing or self.totals.unchecked)


# --- the workflow ---------------------------------------------------------------------


@workflow(name="audit-packages")
def audit_packages(report: str, paths: tuple[str, ...] = ()) -> WorkflowBody[Report]:
    """Audit the distributions in ``paths``, by default those on `sys.path`."""
    found = yield from Step("list distributions", list_distributions, paths)
    audited = []
    for one in found:
        sharing = [other.metadata for other in found if one.tops & other.tops]
        step = Step(f"verify {one.label}", verify, one, sharing)
        audited.append((yield from step))
    result = Report.of(audited)
    yield Step("write report", write_report, result, report)
    return result


# --- finding distributions ------------------------------------------------------------


def list_distributions(paths: tuple[str, ...]) -> list[Found]:
    """Find the distributions in some directories, in a fixed order."""
    named = [(name_of(item), item) for item in metadata_in(paths or sys.path)]
    named.sort(key=lambda one: one[0])  # what has one name stays in the order of paths
    seen: dict[str, int] = {}
    found = []
    for name, metadata in named:
        seen[name] = seen.get(name, 0) + 1
        label = name if seen[name] == 1 else f"{name} #{seen[name]}"
        found.append(Found(label, str(metadata), tops_of(metadata)))
    return found


def metadata_in(paths: Iterable[str]) -> Iterator[Path]:
    """Every .dist-info and .egg-info in these directories, once each."""
    for folder in dict.fromkeys(Path(path).resolve() for path in paths):
        try:
            children = sorted(folder.iterdir())
        except OSError:  # not there, a zip file, or not for us to read
            continue
        for child in children:
            name = child.name.lower()
            is_egg = folder.suffix.lower() == ".egg" and name == "egg-info"
            if name.endswith((".dist-info", ".egg-info")) or is_egg:
                yield child


def name_of(metadata: Path) -> str:
    """Normalised name and version, plain and bounded, as a step name has to be."""
    name, version = "", ""
    try:
        fields = Distribution.at(metadata).metadata
        name = (fields.get_all("Name") or [""])[0]
        version = (fields.get_all("Version") or [""])[0]
    except (OSError, ValueError):
        pass  # no metadata in it, or not as text
    name = re.sub(r"[-_.]+", "-", name or metadata.stem).lower()
    words = (name[:120], version[:80])
    return " ".join(re.sub(r"[^A-Za-z0-9.+!-]+", "-", word) for word in words).strip()


def tops_of(metadata: Path) -> frozenset[str]:
    """The directories beside the metadata that its RECORD lists files in."""
    root = metadata.parent
    tops = set()
    for entry in read_record(metadata) or ():
        path = Path(os.path.normpath(root / entry.path))
        if path.is_relative_to(root):
            top = root / path.relative_to(root).parts[0]
            if top != metadata and top != path:
                tops.add(str(top))
    return frozenset(tops)


# --- verifying one --------------------------------------------------------------------


@attrs.frozen
class Entry:
    """A line of RECORD. ``digest`` is ``algorithm=value``, empty if there is none."""

    path: str
    digest: str
    size: int | None


def read_record(metadata: Path) -> list[Entry] | None:
    """The entries of RECORD, ``__pycache__`` left out; None if it cannot be read."""
    try:
        text = Distribution.at(metadata).read_text("RECORD")
        rows = list(csv.reader(text.splitlines())) if text is not None else None
    except (OSError, ValueError, csv.Error):
        return None
    if rows is None:
        return None
    entries: dict[str, Entry] = {}
    for row in rows:
        path, digest, size = (*row, "", "", "")[:3]
        if path and "__pycache__" not in Path(path).parts:
            number = int(size) if size.isdecimal() else None
            entries.setdefault(path, Entry(path, digest, number))
    return list(entries.values())


def verify(found: Found, sharing: Iterable[str]) -> Audited:
    """Compare one distribution with its RECORD.

    ``sharing`` is the metadata of all distributions that have files in its directories.
    """
    metadata = Path(found.metadata)
    root = metadata.parent
    entries = read_record(metadata)
    results: dict[str, list[str]] = {state: [] for state in STATES}
    for entry in entries or ():
        results[state_of(root / entry.path, entry)].append(entry.path)
    listed = {
        os.path.normpath(Path(other).parent / entry.path)
        for other in sharing
        for entry in read_record(Path(other)) or ()
    }
    unlisted = [
        os.path.relpath(path, root)
        for top in found.tops
        for path in files_below(top)
        if path not in listed
    ]
    return Audited(
        distribution=found.label,
        record=entries is not None,
        verified=len(results["verified"]),
        changed=tuple(sorted(results["changed"])),
        missing=tuple(sorted(results["missing"])),
        unchecked=tuple(sorted(results["unchecked"])),
        unlisted=tuple(sorted(unlisted)),
    )


STATES = ("verified", "changed", "missing", "unchecked", "not vouched for")


def state_of(path: Path, entry: Entry) -> str:
    """How a file compares with its entry."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "unchecked"
    if not entry.digest and entry.size is None:
        return "not vouched for"
    if not stat.S_ISREG(status.st_mode) or entry.size not in (None, status.st_size):
        return "changed"
    if not entry.digest:
        return "verified"
    try:
        same = digest_of(path, entry.digest.partition("=")[0]) == entry.digest
    except (OSError, ValueError, TypeError):  # unreadable, or a hash unknown here
        return "unchecked"
    return "verified" if same else "changed"


def digest_of(path: Path, algorithm: str) -> str:
    """The digest of a file, written as RECORD writes it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def files_below(top: str) -> Iterator[str]:
    """Every file in a directory and those in it, ``__pycache__`` left out."""
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(folder, name) for name in files)


# --- the report -----------------------------------------------------------------------


def write_report(report: Report, path: str) -> None:
    """Write the report as JSON; readers see the old file or the new one, whole."""
    part = Path(f"{path}.part")
    with part.open("w", encoding="ascii") as file:
        json.dump(attrs.asdict(report), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


# --- the command ----------------------------------------------------------------------


class Progress:
    """Prints a line for each step that is recorded. An observer of the engine."""

    def __init__(self) -> None:
        self.has_run = False

    def __call__(self, event: Event) -> None:
        """Called by the engine, in the thread of the run."""
        self.has_run = True
        match event:
            case RunStarted(replayed=steps) if steps:
                print(f"resumed, {steps} steps already done", flush=True)
            case StepRecorded(step=step):
                print(f"recorded {step}", flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Audit installed distributions.")
    parser.add_argument("--database", default="audit.db", help="a file, or a URL")
    parser.add_argument("--report", default="report.json", help="where to write it")
    parser.add_argument("--id", default="audit", help="one id an audit")
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        help="a directory of distributions, instead of sys.path; may be repeated",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run or resume an audit; the exit code."""
    options = parse(arguments)
    url = options.database
    if "://" not in url:
        url = f"sqlite:///{url}"
    report = os.path.abspath(options.report)
    paths = tuple(os.path.abspath(path) for path in options.path)
    progress = Progress()
    try:
        with Engine(
            url,
            workflows=[audit_packages],
            options=RunOptions(max_payload_bytes=64 * 2**20),  # a report may be long
            observer=progress,
        ) as engine:
            ending = engine.run(audit_packages, options.id, report, paths)
    except WorkflowError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
        return 130
    if not isinstance(ending, Completed):
        print(f"the audit did not complete: {ending}", file=sys.stderr)
        return 2
    if not progress.has_run:
        print("this audit was complete; audit again with another --id")
    show(ending.result)
    return 0 if ending.result.is_clean else 1


def show(report: Report) -> None:
    """Print what is not as it should be, and the totals."""
    for one in report.distributions:
        for state in ("changed", "missing", "unchecked"):
            for path in getattr(one, state):
                print(f"{one.distribution}: {state} {path!a}")
    print(", ".join(f"{name} {n}" for name, n in attrs.asdict(report.totals).items()))


if __name__ == "__main__":
    sys.exit(main())
