"""`onbeat backup`: a whole copy of a store in use, or none."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from conditions import eventually_here
from onbeat.cli.main import root
from onbeat.stores.sqlite import backup

Run = Callable[..., str]


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, args)
        assert result.exit_code == code, result.output
        return result.output

    return run


def jobs(path: Path) -> int:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    count: Any = db.execute("SELECT count(*) FROM onbeat_jobs").get
    db.close()
    return int(count)


def test_a_backup_has_all_and_is_private(onbeat: Run, tmp_path: Path) -> None:
    onbeat("job", "add", "--task", "t")
    said = json.loads(onbeat("backup", "b.db", "--json"))
    copy = tmp_path / "b.db"
    assert said == {"file": "b.db", "bytes": copy.stat().st_size}
    assert (jobs(copy), copy.stat().st_mode & 0o777) == (1, 0o600)
    listed = json.loads(onbeat("job", "list", "--json", "--store", "sqlite:///b.db"))
    assert len(listed["jobs"]) == 1
    assert sorted(one.name for one in tmp_path.glob("*part*")) == []


def test_an_existing_file_is_replaced_only_if_told(onbeat: Run, tmp_path: Path) -> None:
    onbeat("job", "add", "--task", "t")
    (tmp_path / "b.db").write_text("mine")
    assert "exists already" in onbeat("backup", "b.db", code=1)
    assert (tmp_path / "b.db").read_text() == "mine"
    onbeat("backup", "b.db", "--force")
    assert jobs(tmp_path / "b.db") == 1


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("none/b.db",), 3, "cannot be written: No such file or directory"),
        (("b.db", "--store", "sqlite:///none.db"), 3, "there is no file none.db"),
        (("b.db", "--store", "postgresql://db/onbeat"), 2, "pg_dump"),
    ],
)
def test_what_cannot_be_backed_up_is_told(
    onbeat: Run, args: tuple[str, ...], code: int, said: str
) -> None:
    onbeat("job", "add", "--task", "t")
    assert said in onbeat("backup", *args, code=code)


def test_a_damaged_copy_is_not_kept(
    onbeat: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onbeat("job", "add", "--task", "t")
    write = backup.write_copy

    def damaged(source: str, part: Path, on_progress: backup.OnProgress) -> None:
        write(source, part, on_progress)
        with part.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(os.urandom(4096 * 3))

    monkeypatch.setattr(backup, "write_copy", damaged)
    onbeat("backup", "b.db", code=3)
    assert [one for one in tmp_path.iterdir() if one.name.startswith(("b.db", "."))] == []


def test_writers_go_on_while_it_copies(
    onbeat: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there at its begin is in it; what comes meanwhile is accepted."""
    onbeat("job", "add", "--task", "before")
    monkeypatch.setattr(backup, "STEPS_BETWEEN_LOOKS", 1)
    added = threading.Event()

    def add_meanwhile(written: int, _total: int) -> None:
        if written and not added.is_set():
            added.set()
            command = [sys.executable, "-m", "onbeat", "job", "add", "--task", "meanwhile"]
            subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    path = tmp_path / "onbeat.db"
    backup.back_up(str(path), tmp_path / "b.db", add_meanwhile, replace=False)
    assert (jobs(tmp_path / "b.db"), jobs(path)) == (1, 2)


KILLED = """
import pathlib, sys, time
from onbeat.stores.sqlite import backup
backup.STEPS_BETWEEN_LOOKS = 1
def stand_still(written, total):
    print("copies", flush=True)
    time.sleep(600)
backup.back_up("onbeat.db", pathlib.Path("b.db").absolute(), stand_still, replace=False)
"""


def test_a_backup_that_is_killed_leaves_none(onbeat: Run, tmp_path: Path) -> None:
    onbeat("job", "add", "--task", "t")
    said = tmp_path / "said"
    with said.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path, stdout=out)
    eventually_here(lambda: "copies" in said.read_text(), "it copies")
    process.kill()
    process.wait()
    assert not (tmp_path / "b.db").exists()
    onbeat("backup", "b.db")
    assert jobs(tmp_path / "b.db") == 1
