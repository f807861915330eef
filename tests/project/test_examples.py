"""Each example does what it says, run as somebody would run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import pytest

from workflow_engine import Completed, Engine, Status
from workflow_engine.testing import Crashes, ProcessDied, TestClock

from ..distributions import digest, install
from ..examples import EXAMPLES, environment, load

TESTED = {"audit_packages", "expense_approval", "order_fulfilment", "wait_for_file"}


def test_every_example_is_tested_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == TESTED


def run(
    example: str, *arguments: object, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run an example as a script."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / example), *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


# --- the audit ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example() -> Any:
    return load("audit_packages")


@attrs.frozen
class Audit:
    """A site-packages to damage, and what an audit of it says."""

    example: Any
    site: Path
    report: Path

    def run(self, *arguments: str, code: int) -> str:
        """Audit in a new process; what it says, after its exit code was checked."""
        options = ("--path", str(self.site), "--report", str(self.report))
        done = run("audit_packages.py", *options, *arguments, cwd=self.report.parent)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def audited(self, *sites: Path) -> dict[str, Any]:
        """Audit here, without a process; each distribution by name."""
        paths = [str(site) for site in sites or (self.site,)]
        url = f"sqlite:///{self.report.parent}/here.db"
        with Engine(url, workflows=[self.example.audit_packages]) as engine:
            ending = engine.run(
                self.example.audit_packages, "it", str(self.report), tuple(paths)
            )
        assert isinstance(ending, Completed)
        return {one.distribution: one for one in ending.result.distributions}


@pytest.fixture
def audit(example: Any, tmp_path: Path) -> Audit:
    site = tmp_path / "site-packages"
    site.mkdir()
    return Audit(example, site, tmp_path / "report.json")


LAMP = {"lamp/__init__.py": b"", "lamp/bulb.py": b"watts = 40\n", "lamp_cli.py": b""}


def test_an_undamaged_tree_is_clean(audit: Audit) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    said = audit.run(code=0)
    assert "recorded verify lamp 1.0\nrecorded write report\n" in said
    assert json.loads(audit.report.read_text()) == {
        "totals": {
            "distributions": 1,
            "with_record": 1,
            "verified": 5,
            "changed": 0,
            "missing": 0,
            "unchecked": 0,
            "unlisted": 0,
        },
        "distributions": [
            {
                "distribution": "lamp 1.0",
                "record": True,
                "verified": 5,
                "changed": [],
                "missing": [],
                "unchecked": [],
                "unlisted": [],
            }
        ],
    }


def test_damage_is_told_file_by_file(audit: Audit) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    (audit.site / "lamp" / "bulb.py").write_bytes(b"watts = 60\n")  # of one size
    (audit.site / "lamp" / "__init__.py").write_bytes(b"longer")
    (audit.site / "lamp_cli.py").unlink()
    (audit.site / "lamp" / "shade").mkdir()
    (audit.site / "lamp" / "shade" / "red.py").touch()
    said = audit.run(code=1)
    assert "lamp 1.0: missing 'lamp_cli.py'" in said
    (one,) = json.loads(audit.report.read_text())["distributions"]
    assert one["verified"] == 2
    assert one["changed"] == ["lamp/__init__.py", "lamp/bulb.py"]
    assert one["missing"] == ["lamp_cli.py"]
    assert one["unlisted"] == ["lamp/shade/red.py"]


def test_compiled_files_count_for_nothing(audit: Audit) -> None:
    files = {**LAMP, "lamp/__pycache__/bulb.cpython-311.pyc": b"compiled"}
    install(audit.site, "lamp", "1.0", files)
    (audit.site / "lamp" / "__pycache__" / "bulb.cpython-311.pyc").write_bytes(b"anew")
    (audit.site / "lamp" / "__pycache__" / "more.pyc").touch()
    one = audit.audited()["lamp 1.0"]
    assert (one.verified, one.changed, one.unlisted) == (5, (), ())


def test_a_shared_package_belongs_to_all_that_have_files_in_it(audit: Audit) -> None:
    install(audit.site, "house-lamp", "1", {"house/lamp/__init__.py": b""})
    install(audit.site, "house-desk", "1", {"house/desk/__init__.py": b""})
    install(audit.site, "garden", "1", {"garden/__init__.py": b""})
    (audit.site / "house" / "stray.py").touch()
    found = audit.audited()
    assert found["house-desk 1"].unlisted == ("house/stray.py",)
    assert found["house-lamp 1"].unlisted == ("house/stray.py",)
    assert found["garden 1"].unlisted == ()


def test_files_outside_the_site_are_verified_and_nobody_owns_their_folder(
    audit: Audit,
) -> None:
    (audit.site.parent / "bin").mkdir()
    (audit.site.parent / "bin" / "other-tool").touch()
    install(audit.site, "lamp", "1.0", {"../bin/lamp": b"#!python\n"})
    one = audit.audited()["lamp 1.0"]
    assert (one.verified, one.unlisted) == (3, ())


@pytest.mark.parametrize("algorithm", ["sha512", "md5", "blake2b"])
def test_the_hash_that_record_names_is_computed(audit: Audit, algorithm: str) -> None:
    install(audit.site, "lamp", "1.0", LAMP, algorithm=algorithm)
    assert audit.audited()["lamp 1.0"].verified == 5


def test_a_hash_nobody_knows_and_a_file_nobody_can_read_are_unchecked(
    audit: Audit,
) -> None:
    place = install(audit.site, "lamp", "1.0", LAMP)
    (audit.site / "loop").symlink_to("loop")
    lines = [
        "lamp/bulb.py,crc99=abc,11",
        f"loop,{digest(b'')},0",
        "lamp/__init__.py,shake_128=abc,0",
    ]
    (place / "RECORD").write_text("\n".join(lines))
    one = audit.audited()["lamp 1.0"]
    assert one.unchecked == ("lamp/__init__.py", "lamp/bulb.py", "loop")


def test_a_size_alone_is_compared_and_an_entry_without_either_is_only_looked_for(
    audit: Audit,
) -> None:
    place = install(audit.site, "lamp", "1.0", LAMP)
    lines = ["lamp/bulb.py,,11", "lamp/__init__.py,,99", "gone.py,,", "lamp_cli.py,,"]
    (place / "RECORD").write_text("\n".join(lines))
    one = audit.audited()["lamp 1.0"]
    assert one.verified == 1
    assert one.changed == ("lamp/__init__.py",)
    assert one.missing == ("gone.py",)


def test_a_directory_where_a_file_should_be_is_a_change(audit: Audit) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    (audit.site / "lamp_cli.py").unlink()
    (audit.site / "lamp_cli.py").mkdir()
    assert audit.audited()["lamp 1.0"].changed == ("lamp_cli.py",)


def test_names_with_commas_quotes_and_bytes_that_are_no_text(audit: Audit) -> None:
    odd = os.fsdecode(b"lamp/\xff.py")
    install(audit.site, "lamp", "1.0", {'lamp/a, "b".py': b"1"})
    (audit.site / odd).touch()
    one = audit.audited()["lamp 1.0"]
    assert (one.verified, one.unlisted) == (3, (odd,))
    audit.run("--id", "again", code=0)
    assert json.loads(audit.report.read_text())["totals"]["unlisted"] == 1


def test_what_has_no_record_is_listed_as_such(audit: Audit) -> None:
    egg = audit.site / "Old_Egg.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: Old_Egg\nVersion: 2\n")
    file = audit.site / "older-0.1.egg-info"
    file.write_text("Metadata-Version: 1.0\nName: older\nVersion: 0.1\n")
    (audit.site / "broken-9.dist-info").mkdir()
    spoilt = install(audit.site, "spoilt", "1", {"spoilt.py": b""})
    (spoilt / "RECORD").write_bytes(b"\xff\xfe")
    (spoilt / "METADATA").write_bytes(b"Name: \xff\n")
    found = audit.audited()
    assert sorted(found) == ["broken-9", "old-egg 2", "older 0.1", "spoilt-1"]
    assert not any(one.record or one.verified for one in found.values())


def test_one_name_twice_is_two_steps(audit: Audit, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for site in (audit.site, other, audit.site):
        install(site, "lamp", "1.0", LAMP)
    (other / "lamp_cli.py").write_bytes(b"changed")
    found = audit.audited(audit.site, other, audit.site, tmp_path / "nowhere")
    assert {name: one.changed for name, one in found.items()} == {
        "lamp 1.0": (),
        "lamp 1.0 #2": ("lamp_cli.py",),
    }


def test_what_is_uninstalled_while_the_audit_is_interrupted_has_no_record_left(
    audit: Audit, tmp_path: Path
) -> None:
    place = install(audit.site, "lamp", "1.0", LAMP)
    crashes = Crashes().at("before_step", "verify lamp 1.0")
    url = f"sqlite:///{tmp_path}/here.db"
    audit_packages = audit.example.audit_packages
    engine = Engine(url, workflows=[audit_packages], points=crashes)
    with engine, pytest.raises(ProcessDied):
        engine.run(audit_packages, "it", str(audit.report), (str(audit.site),))
    with Engine(url, workflows=[audit_packages]) as engine:
        engine.release_lease(audit_packages, "it")
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    one = audit.audited()["lamp 1.0"]
    assert (one.record, one.verified) == (False, 0)


def test_running_it_again_says_what_was_done_before(audit: Audit) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    audit.run(code=0)
    (audit.site / "lamp_cli.py").unlink()
    said = audit.run(code=0)  # the audit is over; its report stands
    assert said.startswith("this audit was complete; audit again with another --id\n")
    audit.run("--id", "second", code=1)


def test_other_arguments_for_an_audit_that_exists_are_refused(audit: Audit) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    audit.run(code=0)
    said = audit.run("--report", "elsewhere.json", code=2)
    assert "started with other arguments (report)" in said
    assert "Traceback" not in said


def test_a_report_that_cannot_be_written_is_an_error_and_tried_again(
    audit: Audit,
) -> None:
    install(audit.site, "lamp", "1.0", LAMP)
    audit.report.mkdir()
    said = audit.run(code=2)
    assert "write report" in said
    assert "Traceback" not in said
    audit.report.rmdir()
    said = audit.run(code=0)
    assert said.startswith("resumed, 2 steps already done\nrecorded write report\n")


def test_the_interpreter_that_runs_it_is_audited(tmp_path: Path) -> None:
    done = run("audit_packages.py", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    audited = {one["distribution"].split()[0] for one in report["distributions"]}
    installed = {one.name for one in metadata.distributions()}
    assert audited >= {re.sub(r"[-_.]+", "-", name).lower() for name in installed}
    assert report["totals"]["verified"] > 1000
    steps = [line for line in done.stdout.splitlines() if line.startswith("recorded ")]
    assert len(steps) == len(set(steps)) == report["totals"]["distributions"] + 2


# --- the order ------------------------------------------------------------------------


def test_one_order_is_fulfilled_and_one_declined(tmp_path: Path) -> None:
    done = run("order_fulfilment.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "order 1001",
        "  shop: hold-1, 2 lamp",
        "  bank: payment-1, 39.00 from 4000-0001",
        "  shop: parcel-2, goods of hold-1",
        "  fulfilled: payment-1, parcel-2",
        "order 1002",
        "  shop: hold-3, 1 desk",
        "  shop: release-4, goods of hold-3",
        "  declined: the card has no cover",
    ]
    again = run("order_fulfilment.py", cwd=tmp_path)
    assert again.stdout.splitlines() == [
        "order 1001",
        "  fulfilled: payment-1, parcel-2",
        "order 1002",
        "  declined: the card has no cover",
    ]


def test_a_declined_order_journals_the_refusal_and_then_the_release(
    database_url: str,
) -> None:
    orders = load("order_fulfilment")
    order = orders.Order("7", "4000-0002", "desk", 1, orders.Decimal(240))
    with Engine(database_url, workflows=[orders.fulfil]) as engine:
        ending = engine.run(orders.fulfil, "7", order)
        assert ending == Completed(orders.Declined("the card has no cover"))
        assert [(e.step, e.kind) for e in engine.journal(orders.fulfil, "7")] == [
            ("reserve", "step_ok"),
            ("charge", "step_failed"),
            ("release", "step_ok"),
            (None, "completed"),
        ]


@pytest.mark.parametrize("step", ["reserve", "charge", "ship"])
def test_an_effect_that_is_repeated_after_a_crash_happens_once(
    database_url: str, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = load("order_fulfilment")
    order = orders.Order("7", "4000-0001", "lamp", 1, orders.Decimal(20))
    crashes = Crashes().at("after_step", step)
    engine = Engine(database_url, workflows=[orders.fulfil], points=crashes)
    with engine, pytest.raises(ProcessDied):
        engine.run(orders.fulfil, "7", order)
    with Engine(database_url, workflows=[orders.fulfil]) as engine:
        engine.release_lease(orders.fulfil, "7")
        ending = engine.run(orders.fulfil, "7")
    assert ending == Completed(orders.Receipt("payment-1", "parcel-2"))
    assert len(capsys.readouterr().out.splitlines()) == 3


# --- wait_for_file ---


def test_a_file_that_appears_wakes_the_workflow(tmp_path: Path) -> None:
    file = tmp_path / "inbox" / "report.txt"
    command = [sys.executable, str(EXAMPLES / "wait_for_file.py"), str(file)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == f"waiting for {file}\n"
        waiting.kill()
    assert file.parent.is_dir()
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == f"waiting for {file}\n"
        file.write_text("four")
        assert waiting.stdout.readline() == f"{file} has 4 bytes\n"
        assert waiting.wait(timeout=30) == 0


# --- expense_approval ---

DAY = 86_400


@attrs.frozen
class Office:
    """The expenses of a test, on a clock that it moves."""

    example: Any
    engine: Engine
    clock: TestClock
    capsys: pytest.CaptureFixture[str]

    def days(self, how_many: int) -> list[str]:
        """Let so many days pass, one by one; what was sent and paid since."""
        for _ in range(how_many):
            self.clock.advance(DAY)
            self.engine.worker().drain()
        said = self.capsys.readouterr().out.splitlines()
        return [re.sub(r" \[\w+\]$", "", line) for line in said]

    def submit(self) -> list[str]:
        """Hand an expense in; what was sent."""
        taxi = self.example.Expense("taxi", self.example.Decimal("42.50"))
        self.engine.start(self.example.approve_expense, "taxi", taxi, DAY)
        self.engine.worker().drain()
        return self.days(0)

    def decide(self, name: str, *, approved: bool, by: str, reason: str = "") -> bool:
        """Answer the question of a workflow; whether that counts."""
        (asked,) = self.engine.awakeables(name, "taxi")
        decision = self.example.Decision(approved, by, reason)
        return self.engine.signal(asked.id, decision)


@pytest.fixture
def office(database_url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Office]:
    example, clock = load("expense_approval"), TestClock()
    workflows = [example.approve_expense, example.escalate]
    with Engine(database_url, workflows=workflows, clock=clock) as engine:
        yield Office(example, engine, clock, capsys)


def test_an_expense_is_paid_when_somebody_approves_after_a_reminder(
    office: Office,
) -> None:
    assert office.submit() == ["to Ada: please decide on taxi, 42.50"]
    assert office.days(2) == ["to Ada: reminder 1", "to Ada: reminder 2"]
    assert office.decide("expense-approval", approved=True, by="Ada")
    paid = [
        "bank: payment-1, 42.50 to Tom",
        "to Tom: taxi, 42.50 is paid, says Ada: payment-1",
    ]
    assert office.days(1) == paid
    assert office.days(7) == [], "nobody is reminded any more"
    assert office.engine.doctor() == []


def test_a_week_without_an_answer_escalates_and_then_nothing_is_paid(
    office: Office,
) -> None:
    office.submit()
    reminders = [f"reminder {number}" for number in (1, 2, 3)]
    assert office.days(7) == [
        *(f"to Ada: {text}" for text in reminders),
        "to Ada: Grace decides on taxi, 42.50 now",
        "to Grace: please decide on taxi, 42.50",
        *(f"to Grace: {text}" for text in reminders),
    ]
    assert office.engine.describe("expense-approval", "taxi").status == Status.SUSPENDED
    told = "taxi, 42.50 is not paid, says nobody: no answer in all that time"
    assert office.days(1) == [f"to Tom: {told}"]
    assert office.engine.handle("expense-approval", "taxi").result(0) == told


def test_after_an_escalation_the_manager_decides(office: Office) -> None:
    office.submit()
    office.days(4)
    office.decide("expense-approval", approved=True, by="Ada")
    assert office.days(1) == ["to Grace: reminder 1"], "this came too late"
    office.decide("expense-escalation", approved=False, by="Grace", reason="walk")
    assert office.days(1) == ["to Tom: taxi, 42.50 is not paid, says Grace: walk"]


def test_an_answer_while_no_process_runs_is_found_by_the_next(tmp_path: Path) -> None:
    program, taxi = "expense_approval.py", ("taxi", "42.50")
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / program), *taxi],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline().startswith("answer: workflow-engine signal ")
        asked = killed.stdout.readline()
        killed.kill()
    id = asked.rstrip("]\n").removeprefix("to Ada: please decide on taxi, 42.50 [")
    with Engine(f"sqlite:///{tmp_path}/expenses.db") as engine:
        assert engine.signal(id, {"approved": True, "by": "Ada"})
    said = run(program, *taxi, cwd=tmp_path).stdout
    # It may have died before it was recorded that she was asked.
    assert said.replace(asked, "").splitlines()[1:] == [
        "bank: payment-1, 42.50 to Tom",
        "to Tom: taxi, 42.50 is paid, says Ada: payment-1",
    ]
