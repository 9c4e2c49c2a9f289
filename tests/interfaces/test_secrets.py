"""`onbeat secrets`, as a process and through a service."""

import json
import os
import pty
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from interfaces.up import up

CANARY = "canary0001"


def a_key(id: Any) -> Any:
    return f"{id}:{b64encode(os.urandom(32)).decode()}"


OLD, NEW = a_key("old"), a_key("new")


class Shell:
    """Runs `onbeat …` in a folder with a store of its own."""

    def __init__(self, folder: Any) -> None:
        self.folder = folder

    def start(
        self, *args: Any, keys: Any = (), errors_to: int = subprocess.PIPE, **environment: Any
    ) -> Any:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
        return subprocess.Popen(
            [sys.executable, "-m", "onbeat", *args],
            cwd=self.folder,
            env=kept | {"ONBEAT_SECRETS__KEYS": ",".join(keys)} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors_to,
            text=True,
        )

    def run(
        self, *args: Any, keys: Any = (), code: int = 0, given: Any = None, **environment: Any
    ) -> Any:
        process = self.start(*args, keys=keys, **environment)
        out, err = process.communicate(given, timeout=60)
        assert process.returncode == code, out + err
        return out, err

    def rotate(self, *keys: Any, code: int = 0) -> Any:
        out, _ = self.run("secrets", "rotate", "--json", keys=keys, code=code)
        return json.loads(out)

    def add(self, count: int, keys: Any) -> None:
        job = {"task": "pay", "args": [CANARY], "encrypted": True}
        lines = "".join(json.dumps({"target": job}) + "\n" for _ in range(count))
        self.run("job", "add", "--file", "-", keys=keys, given=lines)

    def open_files(self) -> Any:
        """The files of the store that hold the canary."""
        files = [path for path in self.folder.iterdir() if path.name.startswith("onbeat.db")]
        assert files
        return [path.name for path in files if CANARY.encode() in path.read_bytes()]


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    return Shell(tmp_path)


def test_a_new_key_is_one_that_settings_take(shell: Any) -> None:
    out, _ = shell.run("secrets", "new-key", "2026-11")
    assert out.startswith("2026-11:")
    assert out != shell.run("secrets", "new-key", "2026-11")[0]
    shell.add(1, [out.strip()])
    assert not shell.open_files()
    shell.run("secrets", "new-key", "a b", code=1)


def test_a_key_of_the_wrong_form_is_refused_without_being_shown(shell: Any) -> None:
    _, err = shell.run("job", "list", keys=["k:abcdefgh"], code=2)
    assert "secrets.keys" in err
    assert "abcdefgh" not in err


def test_rotation_says_what_it_did(shell: Any) -> None:
    shell.add(3, [OLD])
    assert shell.rotate(NEW, OLD) == {"key": "new", "scanned": 3, "changed": 3, "unreadable": 0}
    out, err = shell.run("secrets", "rotate", keys=[NEW])
    assert "all data uses key new" in out
    assert err == ""


def test_rotation_without_the_former_key_ends_with_1_and_says_why(shell: Any) -> None:
    shell.add(2, [OLD])
    out, err = shell.run("secrets", "rotate", keys=[NEW], code=1)
    assert "2 of 2 are under a key that is not in `secrets.keys`" in err
    assert "everything" not in out


def test_rotation_without_any_key_says_how_to_make_one(shell: Any) -> None:
    _, err = shell.run("secrets", "rotate", code=1)
    assert "onbeat secrets new-key" in err


def test_a_rotation_that_is_killed_is_finished_by_the_next(shell: Any) -> None:
    shell.add(4_000, [OLD])
    ours, theirs = pty.openpty()  # it tells of its progress on a terminal
    process = shell.start("secrets", "rotate", keys=[NEW, OLD], errors_to=theirs)
    os.close(theirs)
    text = b""
    while b"500 looked at" not in text:
        text += os.read(ours, 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    os.close(ours)
    total = shell.rotate(NEW, OLD)
    assert total["scanned"] == 4_000
    assert 0 < total["changed"] < 4_000
    assert shell.rotate(NEW) == {"key": "new", "scanned": 4_000, "changed": 0, "unreadable": 0}


def test_a_service_rotates_while_its_jobs_run(shell: Any, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "from onbeat import Onbeat\n"
        "beat = Onbeat('sqlite:///onbeat.db')\n"
        "@beat.task('pay', encrypted=True)\n"
        "async def pay(card):\n"
        "    assert card == 'canary0001', card\n"
    )
    shell.add(500, [OLD])
    with up(tmp_path, "app.py", ONBEAT_SECRETS__KEYS=f"{NEW},{OLD}") as service:
        host, port = service.address
        server = f"http://{host}:{port}"
        while True:
            out, _ = shell.run("secrets", "rotate", "--json", "--server", server)
            if json.loads(out)["changed"] == 0:
                break
        for _ in range(20):
            body = {"jobs": [{"task": "pay", "args": [CANARY]} for _ in range(20)]}
            assert service.ask("/api/jobs", body)[0] == 201

        def all_ended() -> Any:
            _, stats = service.ask("/api/stats")
            return stats["jobs"].get("succeeded") == 900

        eventually_here(all_ended, "all have succeeded", 60)
        assert not shell.open_files()
    assert shell.rotate(NEW)["unreadable"] == 0


def test_doctor_says_which_key_encrypts(shell: Any) -> None:
    out, _ = shell.run("doctor", "--json", keys=[NEW, OLD])
    result = {load["name"]: load["value"] for load in json.loads(out)["findings"]}
    assert result["encryption at rest"] == "key new, 1 former keys decrypt"
    out, _ = shell.run("doctor", "--json")
    result = {load["name"]: load["value"] for load in json.loads(out)["findings"]}
    assert result["encryption at rest"].startswith("off")
