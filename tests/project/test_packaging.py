from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import alembic
import pytest

import workflow_engine
from workflow_engine.store.schema import REVISIONS, migrations_dir

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this checkout, and the wheel made from that sdist."""
    source = tmp_path_factory.mktemp("source") / "checkout"
    # What lies about in a work tree must not get in, and nothing is built in there.
    left_out = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.db*")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*left_out))
    for name in (".ci", ".pre-commit-config.yaml", ".gitignore"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, source / name)
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    (path,) = built.glob("*.whl")
    return path


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_setup_cfg_lists_every_package() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    on_disk = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for init in (ROOT / "workflow_engine").rglob("__init__.py")
    }
    mapped = {"workflow_engine.migrations", "workflow_engine.migrations.versions"}
    assert listed == on_disk | mapped


def test_our_alembic_directory_is_not_importable() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()
    assert alembic.__file__ is not None
    assert not Path(alembic.__file__).is_relative_to(ROOT / "alembic")


def test_the_migrations_are_found_from_where_the_package_is() -> None:
    home = Path(workflow_engine.__file__).parent
    beside = ROOT / "alembic" if home.parent == ROOT else home / "migrations"
    assert migrations_dir() == beside


def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in _names(wheel)}
    version = wheel.name.split("-")[1]
    assert tops == {"workflow_engine", f"workflow_engine-{version}.dist-info"}


def test_the_wheel_holds_every_source_file_and_every_migration(wheel: Path) -> None:
    names = set(_names(wheel))
    sources = (ROOT / "workflow_engine").rglob("*.py")
    assert {str(path.relative_to(ROOT)) for path in sources} <= names
    assert "workflow_engine/py.typed" in names
    assert "workflow_engine/migrations/env.py" in names
    prefix = "workflow_engine/migrations/versions/"
    versions = {name.removeprefix(prefix)[:4] for name in names if prefix in name}
    assert versions == set(REVISIONS)


def test_the_sdist_holds_what_is_needed_to_test_it(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for expected in (
        ".ci/run",
        "LICENSE",
        "README.md",
        "alembic.ini",
        "alembic/versions/0001_instances_journal_snapshots.py",
        "examples/audit_packages.py",
        "tests/conftest.py",
        "tox.ini",
    ):
        assert expected in names


def test_the_wheel_migrates_from_any_directory(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from workflow_engine.store import schema\n"
        "from workflow_engine.store.database import Database\n"
        "with Database.open('sqlite:///migrated.db') as database:\n"
        "    schema.upgrade(database)\n"
        "    assert schema.check(database) == []\n"
        "print(schema.migrations_dir())\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(home)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(home / "workflow_engine" / "migrations")


def test_the_base_needs_no_server_driver_and_little_else(wheel: Path) -> None:
    (name,) = (name for name in _names(wheel) if name.endswith("METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(name).decode().splitlines()
    required = [
        line.removeprefix("Requires-Dist: ")
        for line in lines
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert sorted(line.partition(">=")[0] for line in required) == [
        "alembic",
        "attrs",
        "cattrs",
        "click",
        "rich",
        "sqlalchemy",
    ]
    assert "License-Expression: MIT" in lines
