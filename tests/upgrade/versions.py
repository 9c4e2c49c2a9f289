"""Other versions of Onbeat: the last release, out of the history, and one that is yet to come."""

import os
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
RELEASE: Final = "57d32845799d467b8cdf5ab1550274301655cec0"
"""The last commit before the changelog had an "Unreleased" section: version 0.1.0."""


def release(folder: Path) -> Path:
    """The `src` of the last release, put into this folder."""
    command = ["git", "-C", str(ROOT), "archive", RELEASE, "src"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, (
        f"this test needs the commit {RELEASE[:7]} of the history, so a clone that is not shallow "
        f"(git fetch --unshallow): {done.stderr.decode()}"
    )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def later(folder: Path) -> Path:
    """The `src` of a version with the schema of this one."""
    source = folder / "src"
    # With what is compiled, but not with what another process is about to rename.
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.pyc.*"))
    return source


def with_migration(folder: Path, store: str, script: str) -> Path:
    """The `src` of a later version that adds a migration for stores of a kind."""
    source = later(folder)
    migrations = source / "onbeat" / "stores" / store / "migrations"
    number = len(list(migrations.glob("*.sql"))) + 1
    (migrations / f"{number:04}_later.sql").write_text(script)
    return source


def environment(source: Path) -> dict[str, str]:
    """Of a process that imports Onbeat from there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONBEAT_")}
    return {**kept, "PYTHONPATH": str(source), "PYTHONUNBUFFERED": "1"}
