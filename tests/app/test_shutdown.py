"""Programs that end, with what they have opened closed or not."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interfaces.up import up
from onbeat import Onbeat
from stores.mysql import server as mysql
from stores.postgres import server as postgres

PROGRAM = """
import asyncio, sys, threading
from onbeat import Onbeat

print(len(Onbeat(sys.argv[1]).jobs.list()))  # forgotten at once
beat = Onbeat(sys.argv[1])

@beat.task("add")
def add(a: int, b: int) -> int:
    return a + b

add.send(1, 1)
asyncio.run(beat.asend(add.call(1, 2)))
threads = [threading.Thread(target=add.send, args=(1, 3)) for _ in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""

ENDINGS = {
    "its last line": "",
    "close": "beat.close()\nbeat.close()",
    "close, and then a use": "beat.close()\nadd.send(1, 4)",
    "with": "with beat:\n    add.send(1, 4)",
    "aclose": "asyncio.run(beat.aclose())",
    "sys.exit": "sys.exit(0)",
}


@pytest.fixture(params=["memory", "sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    match request.param:
        case "memory":
            yield "memory://"
        case "sqlite":
            yield f"sqlite:///{tmp_path}/onbeat.db"
        case "postgresql":
            with postgres.database(f"onbeat_shutdown_{os.getpid()}") as place:
                yield place
        case "mysql":
            with mysql.database() as place:
                yield place


def run(url: str, ending: str = "") -> Any:
    program = f"{PROGRAM}\n{ending}\n"
    return subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "ending", [ENDINGS["its last line"], ENDINGS["with"]], ids=["last", "with"]
)
def test_a_program_ends_without_noise_on_every_store(url: str, ending: str) -> None:
    ended = run(url, ending)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_a_program_ends_without_noise_in_every_way(tmp_path: Path, ending: str) -> None:
    ended = run(f"sqlite:///{tmp_path}/onbeat.db", ENDINGS[ending])
    assert (ended.returncode, ended.stderr) == (0, "")
    # Closed as it should be: the next to open it need not look whether it is damaged.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["onbeat.db"]


def test_an_error_is_still_the_programs_own(tmp_path: Path) -> None:
    ended = run(f"sqlite:///{tmp_path}/onbeat.db", "raise ValueError('mine')")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "ValueError: mine"


async def test_a_program_that_asks_a_service_ends_without_noise(service: Any) -> None:
    ended = await asyncio.to_thread(run, service)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_forked_process_leaves_what_it_has_not_opened(tmp_path: Path) -> None:
    """Its threads are those of the process that opened it."""
    ended = run(
        f"sqlite:///{tmp_path}/onbeat.db",
        "import os\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "    add.send(1, 5)\n"
        "    assert len(beat.jobs.list(limit=100)) == 6\n",
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_store_that_does_not_answer_keeps_no_program_from_ending(tmp_path: Path) -> None:
    ended = run(
        f"sqlite:///{tmp_path}/onbeat.db",
        "async def never():\n    await asyncio.Event().wait()\nbeat.backend.store.close = never\n",
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# In this process


def test_with_sends_and_closes(tmp_path: Path) -> None:
    with Onbeat(f"sqlite:///{tmp_path}/onbeat.db") as beat:

        @beat.task("add")
        def add(a: int, b: int) -> int:
            return a + b

        job = add.send(1, 2)
        assert job.info().state == "waiting"
        assert not beat.backend.is_running
    assert not beat.backend.is_open
    assert not beat.backend.portal.is_alive
    assert [file.name for file in tmp_path.iterdir()] == ["onbeat.db"]
    assert job.info().state == "waiting", "the next use opens it again"
    beat.close()


def test_nothing_is_opened_to_be_closed(tmp_path: Path) -> None:
    with Onbeat(f"sqlite:///{tmp_path}/onbeat.db") as beat:
        pass
    beat.close()
    assert list(tmp_path.iterdir()) == []


async def test_close_in_a_coroutine_names_the_other(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    with pytest.raises(RuntimeError, match=r"use `await beat\.aclose\(\)`"):
        beat.close()
    await beat.aclose()


def test_a_client_of_a_service_ends_without_noise_in_every_way(tmp_path: Path) -> None:
    with up(tmp_path, "--store", "memory://", "--log-format", "json") as service:
        url = "http://{}:{}".format(*service.address)
        for ending in ENDINGS.values():
            ended = run(url, ending)
            assert (ended.returncode, ended.stderr) == (0, ""), ending
