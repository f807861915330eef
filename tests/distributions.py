"""Installs small distributions into a folder, as pip would, for audits to look at."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    algorithm: str = "sha256",
) -> Path:
    """Write the files, and the metadata with a RECORD that lists them; the metadata."""
    metadata = site / f"{name}-{version}.dist-info"
    described = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    rows = []
    for path, content in {
        **files,
        f"{metadata.name}/INSTALLER": b"pip\n",
        f"{metadata.name}/METADATA": described,
    }.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        rows.append((path, digest(content, algorithm), str(len(content))))
    rows.append((f"{metadata.name}/RECORD", "", ""))
    with (metadata / "RECORD").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return metadata


def digest(content: bytes, algorithm: str = "sha256") -> str:
    """The digest of some content as RECORD writes it."""
    value = hashlib.new(algorithm, content).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(value).rstrip(b'=').decode()}"
