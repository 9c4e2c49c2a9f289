"""The fleet of `make run-fleet`: every role in a process of its own, over PostgreSQL and RabbitMQ.

An API, a planner, two dispatchers, maintenance and two workers are `onbeat up` with other roles;
one more process is a worker that uses only Onbeat's messages. Kill any of them, or the broker: due
jobs still run, and a dead process is restarted. Ctrl-C stops all, and a new start continues with
the same store.

ONBEAT_STORE and ONBEAT_TRANSPORT name the servers if they are not on this machine.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import asyncpg
from rich.console import Console

HERE = Path(__file__).parent
FOLDER = Path(".run")
STORE = os.environ.get("ONBEAT_STORE", "postgresql://postgres@127.0.0.1:5432/onbeat_fleet")
TRANSPORT = os.environ.get("ONBEAT_TRANSPORT", "amqp://guest:guest@127.0.0.1:5672/?prefix=fleet.")
PORT = os.environ.get("ONBEAT_API__PORT", "8090")
URL = f"http://127.0.0.1:{PORT}"
ROLES = {
    "api": "api",
    "planner": "planner",
    "dispatcher 1": "dispatcher",
    "dispatcher 2": "dispatcher",
    "maintenance": "maintenance",
    "worker 1": "worker",
    "worker 2": "worker",
}
REMOTE = "remote worker"
GRACE = "2m"  # occurrences in an outage up to this long still run; of a longer one, only the latest
SCHEDULES = {
    "fleet-tick": {
        "name": "tick, every 2 seconds",
        "every": "2s",
        "grace": GRACE,
        "target": {"task": "tick"},
    },
    "fleet-export": {
        "name": "export, by the remote worker",
        "every": "3s",
        "grace": GRACE,
        "target": {"task": "export", "kwargs": {"objectID": 23}},
    },
}
READY_WITHIN = 30.0
ANSWER_WITHIN = 5.0
RESTART_PAUSE = 1.0
LOOK_PERIOD = 0.5
SEEN_MAX = 10_000

console = Console(highlight=False, soft_wrap=True)


async def database() -> None:
    """Create the store's database if it does not exist yet."""
    parts = urlsplit(STORE)
    name = parts.path.strip("/")
    db = await asyncpg.connect(parts._replace(path="/postgres").geturl())
    try:
        if not await db.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await db.execute(f'CREATE DATABASE "{name}"')
    finally:
        await db.close()


async def broker() -> None:
    """Raises `OSError` or `ValueError` if no broker can be reached there."""
    parts = urlsplit(TRANSPORT)
    if parts.scheme != "amqp":
        raise ValueError("the remote worker of this fleet speaks amqp:// alone")
    async with asyncio.timeout(ANSWER_WITHIN):
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or 5672)
    writer.close()


class Fleet:
    """The processes by their displayed names; a process that ends is restarted."""

    def __init__(self) -> None:
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.names: dict[int, str] = {}
        self.keepers: list[asyncio.Task[None]] = []
        self.launching = asyncio.Lock()

    async def start(self) -> None:
        for name, role in ROLES.items():
            up = ("-m", "onbeat", "up", str(HERE / "app.py"), "--roles", role, "--port", PORT)
            await self.keep(name, *up)
            if name == "api":
                # It migrates the schema before the others start.
                await until_ready(self.processes[name])
        worker = str(HERE.parent / "workers" / "rabbitmq_worker.py")
        address, _, options = TRANSPORT.partition("?")
        await self.keep(REMOTE, worker, address, dict(parse_qsl(options)).get("prefix", ""))

    async def keep(self, name: str, *arguments: str) -> None:
        await self.launch(name, *arguments)
        self.keepers.append(asyncio.create_task(self.kept(name, *arguments)))

    async def kept(self, name: str, *arguments: str) -> None:
        while True:
            code = await self.processes[name].wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            await asyncio.sleep(RESTART_PAUSE)
            async with self.launching:
                await self.launch(name, *arguments)
            pid = self.processes[name].pid
            console.print(f"  [yellow]{name} {how}; started again as process {pid}[/]")

    async def launch(self, name: str, *arguments: str) -> None:
        log = FOLDER / f"fleet-{name.replace(' ', '-')}.log"
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                env=os.environ
                | {
                    "ONBEAT_STORE": STORE,
                    "ONBEAT_TRANSPORT": TRANSPORT,
                    "ONBEAT_REMOTE__TASKS": "export",
                },
                stdout=sink,
                stderr=asyncio.subprocess.STDOUT,
                # This program handles Ctrl-C and then stops the others cleanly.
                start_new_session=True,
            )
        self.processes[name] = process
        self.names[process.pid] = name

    async def stop(self) -> None:
        # An interrupted start would leave a process that this program does not know of.
        async with self.launching:
            for keeper in self.keepers:
                keeper.cancel()
        await asyncio.gather(*self.keepers, return_exceptions=True)
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            code = await process.wait()
            if code not in {0, -signal.SIGTERM, -signal.SIGKILL}:
                console.print(f"  [yellow]{name} ended with {code}[/]")


async def until_ready(process: asyncio.subprocess.Process) -> None:
    give_up = time.monotonic() + READY_WITHIN
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < give_up and process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{URL}/healthz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.05)
    sys.exit(f"the API did not become ready; {FOLDER / 'fleet-api.log'} says why")


async def put_schedules(session: aiohttp.ClientSession) -> None:
    for key, body in SCHEDULES.items():
        async with session.put(f"{URL}/api/schedules-by-key/{key}", json=body) as response:
            if response.status >= 300:
                sys.exit(f"{body['name']}: {await response.text()}")


async def ended(session: aiohttp.ClientSession) -> AsyncIterator[dict[str, Any]]:
    """Jobs that end from now on, each once; none while the API is away."""
    seen: set[str] = set()
    is_first, is_away = True, False
    while True:
        try:
            result = [*await page(session, "succeeded"), *await page(session, "failed")]
            for job in sorted(result, key=lambda job: job["finished_at"]):
                if job["id"] not in seen and not is_first:
                    whole = await ask(session, f"/api/jobs/{job['id']}")
                    seen.add(job["id"])
                    yield whole
        except (aiohttp.ClientError, TimeoutError) as error:
            if not is_away:
                console.print(f"  [yellow]the API cannot tell what ends: {reason(error)}[/]")
            is_away = True
        else:
            seen.update(job["id"] for job in result)
            is_first, is_away = False, False
        if len(seen) > SEEN_MAX:
            seen = set(sorted(seen)[-SEEN_MAX // 2 :])
        await asyncio.sleep(LOOK_PERIOD)


def reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return f"it answers {error.status}"
    return str(error) or "it does not answer"


async def page(session: aiohttp.ClientSession, state: str) -> list[dict[str, Any]]:
    return list((await ask(session, f"/api/jobs?state={state}&limit=1000"))["jobs"])


async def ask(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(URL + path) as response:
        response.raise_for_status()
        return await response.json()


async def show(fleet: Fleet, session: aiohttp.ClientSession) -> None:
    workers: dict[str, str] = {}
    async for job in ended(session):
        if job["target"].get("task") == "charge":
            continue  # fifty at a time; the run that sends them is shown
        (*_, last) = job["attempts"]
        if last["worker"] not in workers:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                rows = (await ask(session, "/api/workers"))["workers"]
                workers |= {row["id"]: fleet.names.get(row["pid"], "another") for row in rows}
        console.print(line(job, last, workers))


def line(job: dict[str, Any], last: dict[str, Any], workers: dict[str, str]) -> str:
    finished = datetime.fromisoformat(last["finished"]).astimezone()
    started, due = (datetime.fromisoformat(text) for text in (last["started"], job["run_at"]))
    late = (started - due).total_seconds() * 1_000
    is_remote = last["worker"].startswith(("remote:", "carrier:calls:"))
    worker = REMOTE if is_remote else workers.get(last["worker"], "another")
    colour = "green" if job["state"] == "succeeded" else "red"
    return (
        f"[dim]{finished:%H:%M:%S.%f}[/]  {job['target'].get('task', ''):<20} "
        f"[{colour}]{job['state']:<9}[/]  on {worker:<13} after {late:7.1f} ms"
        f"  try {last['number']}"
    )


def say_where(fleet: Fleet) -> None:
    console.print("\n[bold]The fleet is running.[/bold]\n")
    for name, process in fleet.processes.items():
        console.print(f"  {name:<14} process {process.pid}")
    console.print(f"\n  API         {URL}/api/jobs")
    console.print(f"  Swagger UI  {URL}/swagger-ui")
    console.print(f"  logs        {FOLDER}/fleet-*.log\n")
    console.print("Kill any of them with `kill -9`, or the broker. What ends (Ctrl-C stops):\n")


async def run() -> None:
    try:
        await database()
    except (OSError, ValueError, asyncpg.PostgresError) as error:
        sys.exit(
            f"PostgreSQL at {urlsplit(STORE).hostname} cannot be used: {error}; set ONBEAT_STORE"
        )
    try:
        await broker()
    except (OSError, ValueError) as error:
        where = urlsplit(TRANSPORT).hostname
        sys.exit(f"RabbitMQ at {where} cannot be used: {error}; set ONBEAT_TRANSPORT")
    fleet, stop = Fleet(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await fleet.start()
        limit = aiohttp.ClientTimeout(total=ANSWER_WITHIN)
        async with aiohttp.ClientSession(timeout=limit) as session:
            await put_schedules(session)
            say_where(fleet)
            showing = asyncio.create_task(show(fleet, session))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            showing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await showing
    finally:
        console.print("\nstopping ...")
        await fleet.stop()
        console.print("stopped; nothing is lost")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(run())
