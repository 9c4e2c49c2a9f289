"""`make run-fleet`: what a newcomer starts, kills and stops."""

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from app.programs import Program
from docs.pages import ROOT
from docs.services import environment
from fleet.conftest import rabbitmq_url
from free_ports import free_port
from onbeat.wire.broker_messages import run_queue
from stores.postgres.server import base_url
from transports.rabbitmq import server as rabbitmq

SCRIPT = ROOT / "examples" / "fleet" / "run.py"
READY_WITHIN = 60.0  # nine programs start
LIVES = {
    "api": 2, "planner": 1, "dispatcher 1": 2, "dispatcher 2": 2, "maintenance": 1,
    "worker 1": 1, "worker 2": 1, "remote worker": 1,
}  # fmt: skip


@pytest.fixture
def store() -> Iterator[str]:
    """The URL of a database that is not there yet."""
    name = f"fleet_{secrets.token_hex(4)}"
    yield urlsplit(base_url())._replace(path=f"/{name}").geturl()

    async def drop() -> None:
        db = await asyncpg.connect(base_url())
        await db.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await db.close()

    asyncio.run(drop())


@pytest.fixture
async def transport() -> AsyncIterator[str]:
    async with rabbitmq_url() as url:
        yield url
        (prefix,) = parse_qs(urlsplit(url).query)["prefix"]
        billing = {f"{prefix}{run_queue('billing')}"}
        await rabbitmq.delete(rabbitmq.server(), billing, f"{prefix}onbeat.dlx")


@pytest.fixture
def fleet(tmp_path: Path, store: str, transport: str) -> Iterator[Program]:
    log = tmp_path / "fleet.log"
    servers = {"ONBEAT_STORE": store, "ONBEAT_TRANSPORT": transport}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, SCRIPT],
            cwd=tmp_path,
            env=environment(tmp_path) | servers | {"ONBEAT_API__PORT": str(free_port())},
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    fleet = Program(process, log)
    yield fleet
    if process.poll() is None:
        fleet.signal(signal.SIGTERM)
        fleet.ended()


def pids_of(fleet: Program) -> dict[str, list[int]]:
    """Of each member, one life after the other."""
    fields = fleet.log.read_text()
    return {
        name: [int(pid) for pid in re.findall(rf"^  {name} .*process (\d+)$", fields, re.MULTILINE)]
        for name in LIVES
    }


def test_who_is_killed_is_started_again_and_what_is_due_runs(fleet: Program) -> None:
    fleet.wait_to_say("on remote worker", within=READY_WITHIN)
    fleet.wait_to_say("on worker", within=READY_WITHIN)
    for name in ("dispatcher 1", "dispatcher 2", "api"):
        os.kill(pids_of(fleet)[name][0], signal.SIGKILL)
        fleet.wait_to_say(f"{name} was killed by signal 9; started again", within=READY_WITHIN)
    for what in ("on remote worker", "on worker"):
        fleet.wait_to_say(what, fleet.log.read_text().count(what) + 2, within=READY_WITHIN)
    fleet.signal(signal.SIGINT)
    assert fleet.ended(READY_WITHIN) == 0
    fields, pids = fleet.log.read_text(), pids_of(fleet)
    assert fields.endswith("stopped; nothing is lost\n")
    assert "ended with" not in fields
    assert {name: len(lives) for name, lives in pids.items()} == LIVES
    assert not [pid for lives in pids.values() for pid in lives if is_there(pid)]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
