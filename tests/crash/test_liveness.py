"""A store that refuses writes kills nobody, and a worker whose interpreter is held is not dead."""

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec
import pytest

from app.programs import Program, program
from conditions import eventually
from crash.frozen import freeze
from crash.invariants import lines
from disks import filled, small_disk
from onbeat.app.stores import open_store
from onbeat.app.system import is_process_running
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.job import JobState
from onbeat.model.limits import LOST_MAX
from onbeat.model.page import JobFilter
from onbeat.model.target import HandlerTarget
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from stores.mysql import server as mysql
from stores.postgres import server as postgres

PROGRAM = (Path(__file__).parent / "hold_interpreter.py").read_text()
LEASE = 1.5
WORK = "dispatcher,worker"
WATCH = "maintenance"
NONE = msgspec.Raw(b"[]")
ARGS = {"hold": msgspec.Raw(f"[{3 * LEASE}]".encode())}  # seconds

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("fleet")]


class Fleet:
    """Programs on one store, and the store as seen from here."""

    def __init__(self, place: Any, store: Any, stack: Any) -> None:
        self.place = place
        self.store = store
        self.stack = stack
        self.running: dict[str, Program] = {}

    def start(self, name: str, roles: Any, *more: Any) -> Any:
        one = self.stack.enter_context(program(PROGRAM, self.place, name, str(LEASE), roles, *more))
        one.wait_to_say("ready")
        self.running[name] = one
        return one

    async def begin(self, *tasks: Any) -> None:
        """Send a job of each, and wait until all have begun."""
        await self.send(*tasks)
        await eventually(lambda: len(self.began) == len(tasks), "all have begun")

    async def send(self, *tasks: Any) -> None:
        now = datetime.now(UTC)
        await self.store.enqueue(
            [
                a_job(task, target=HandlerTarget(task, args=ARGS.get(task, NONE)), due_at=now)
                for task in tasks
            ]
        )

    @property
    def began(self) -> Any:
        return lines(self.place / "began")

    async def beats(self) -> Any:
        return {row.id: row.beat for row in await self.store.workers()}

    async def beats_rise(self, by: Any) -> None:
        """Returns once every worker has beaten so often."""
        before = await self.beats()

        async def risen() -> Any:
            now = await self.beats()
            return all(now.get(id, 0) >= beat + by for id, beat in before.items())

        await eventually(risen, f"all beats rise by {by}")

    async def is_known(self, worker: Any) -> Any:
        return worker in await self.beats()

    async def beats_stand_still(self) -> Any:
        """For as long as three take."""
        before = await self.beats()
        await lasts(0.75 * LEASE)
        return await self.beats() == before

    async def jobs(self) -> Any:
        return (await self.store.jobs(JobFilter(limit=100))).items

    async def losses(self) -> Any:
        """The attempts that were taken for lost, with the reason."""
        return [
            (job.target.task, attempt.number, attempt.error)
            for job in await self.jobs()
            for attempt in await self.store.attempts(job.id)
            if attempt.outcome is OutcomeName.LOST
        ]

    async def has_ended(self, task: Any) -> Any:
        return any(job.target.task == task and job.is_final for job in await self.jobs())

    async def all_ended(self) -> Any:
        (self.place / "go").touch()

        async def ended() -> Any:
            jobs = await self.jobs()
            return jobs if all(job.is_final for job in jobs) else None

        return await eventually(ended, "all jobs end")

    async def end(self) -> None:
        """Every job has ended well in its first attempt, under its first token."""
        jobs = await self.all_ended()
        assert {(job.state, job.attempt, job.token, job.lost) for job in jobs} == {
            (JobState.SUCCEEDED, 1, 1, 0)
        }
        (self.place / "end").touch()
        for one in self.running.values():
            assert one.ended() == 0, one.log.read_text()


@contextlib.asynccontextmanager
async def fleet_at(url: str, tmp_path: Any) -> AsyncIterator[Any]:
    (tmp_path / "store").write_text(url)
    store = open_store(url)
    await store.open()
    try:
        with contextlib.ExitStack() as stack:
            yield Fleet(tmp_path, store, stack)
    finally:
        await store.close()


@pytest.fixture
async def fleet(place: Any) -> AsyncIterator[Any]:
    async with fleet_at((place / "store").read_text(), place) as made:
        yield made


# Stores that can be read, and not written.


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program's transaction, a backup say."""
    db = apsw.Connection(str(path))
    db.set_busy_timeout(5_000)
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


class OnSqlite:
    def __init__(self, tmp_path: Any) -> None:
        self.path = tmp_path / "onbeat.db"
        self.url = f"sqlite:///{self.path}"

    def refusing(self) -> Any:
        return locked(self.path)


class OnPostgres:
    """A server of our own: what is set concerns all who use it."""

    def __init__(self, server: Any, setting: Any, value: Any) -> None:
        self.url = server.url
        self.setting, self.value = setting, value

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        asyncio.run(self.alter(f"ALTER SYSTEM SET {self.setting} = {self.value}"))
        try:
            yield
        finally:
            asyncio.run(self.alter(f"ALTER SYSTEM RESET {self.setting}"))

    async def alter(self, statement: Any) -> None:
        db = await asyncpg.connect(self.url)
        try:
            await db.execute(statement)
            await db.execute("SELECT pg_reload_conf()")
        finally:
            await db.close()


class OnMysql:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.url = f"{root}/onbeat"

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """As a backup does it. The lock lasts as long as its session."""
        with mysql.session(self.root) as run:
            run("FLUSH TABLES WITH READ LOCK")
            yield
            run("UNLOCK TABLES")


@pytest.fixture
def refuser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    match request.param:
        case "locked":
            yield OnSqlite(tmp_path)
        case "read-only":
            with postgres.private_server() as server:
                yield OnPostgres(server, "default_transaction_read_only", "on")
        case "standby":
            with postgres.private_server() as server:
                yield OnPostgres(server, "synchronous_standby_names", "'nobody'")
        case _:
            private = mysql.Private()
            private.start()
            try:
                mysql.execute(private.url, "CREATE DATABASE onbeat")
                yield OnMysql(private.url)
            finally:
                private.stop()


@pytest.mark.parametrize("refuser", ["locked", "read-only", "standby", "backup"], indirect=True)
async def test_a_store_that_refuses_writes_for_twice_the_lease_kills_nobody(
    refuser: Any, tmp_path: Path
) -> None:
    async with outlived(refuser, tmp_path):
        await lasts(2 * LEASE)


@contextlib.asynccontextmanager
async def outlived(refuser: Any, tmp_path: Any) -> AsyncIterator[Any]:
    """Two workers and a watcher, of whom the store takes no writes within the block."""
    async with fleet_at(refuser.url, tmp_path) as fleet:
        for name in ("one", "two"):
            fleet.start(name, WORK)
        fleet.start("watcher", WATCH)
        await fleet.begin(*["stay"] * 10)
        await fleet.beats_rise(4)
        with contextlib.ExitStack() as outage:
            await asyncio.to_thread(outage.enter_context, refuser.refusing())
            yield fleet
            await asyncio.to_thread(outage.close)
        await fleet.send("quick")
        await eventually(lambda: fleet.has_ended("quick"), "work goes on")
        await fleet.beats_rise(8)
        assert len(fleet.began) == 10
        await fleet.end()


async def lasts(seconds: Any) -> None:
    began = time.monotonic()
    await eventually(lambda: time.monotonic() - began > seconds, "the outage lasts")


class FullUnderSqlite:
    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.url = f"sqlite:///{disk}/onbeat.db"

    def refusing(self) -> Any:
        return filled(self.disk)

    async def is_felt(self, fleet: Any) -> bool:
        """Beats alone may go on for ever, in pages that the log has already."""
        return await refuses_rows(fleet)


async def refuses_rows(fleet: Any) -> bool:
    try:
        await fleet.store.add_dead_letters([a_dead_letter(body=bytes(4_000))])
    except Unavailable:
        return True
    return False


ROOM_FOR_VERDICTS = (
    "SET search_path TO onbeat",
    "INSERT INTO attempts SELECT gen_random_uuid(), n, repeat('x', 500) FROM generate_series(1, 99) n",
    "DELETE FROM attempts",
    "VACUUM (TRUNCATE OFF) attempts",
    "CREATE TEMP TABLE more AS SELECT * FROM jobs",
    "UPDATE more SET id = gen_random_uuid(), running = FALSE, worker = NULL, held = TRUE",
    *["INSERT INTO jobs SELECT * FROM more", "UPDATE more SET id = gen_random_uuid()"] * 9,
    "DELETE FROM jobs WHERE NOT running",
    "VACUUM (TRUNCATE OFF) jobs",
    "DROP TABLE more",
    "INSERT INTO pings (id, count) VALUES (1, 1)",
)
"""Pages of other tables than that of the workers have it."""


class FullUnderPostgres:
    """The tables lie on a disk of their own. Rows are written anew in pages that have room.

    They are not given back, and so new pages are wanted, while somebody looks at an old state of
    the database, as a backup does.
    """

    def __init__(self, server: Any, disk: Any) -> None:
        self.disk = disk
        postgres.execute(
            server.url,
            f"CREATE TABLESPACE small LOCATION '{owned_by_server(disk)}'",
            "CREATE DATABASE onbeat TEMPLATE template0 TABLESPACE small",
        )
        self.url = server.url.removesuffix("postgres") + "onbeat"

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        postgres.execute(self.url, *ROOM_FOR_VERDICTS)
        with filled(self.disk), asyncio.Runner() as runner:
            db = runner.run(asyncpg.connect(self.url))
            try:
                runner.run(db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"))
                yield
            finally:
                runner.run(db.close())

    def is_felt(self, fleet: Any) -> Any:
        return fleet.beats_stand_still()


class FullUnderMysql:
    """The tables lie on a disk of their own. Rows are changed in their place, so that beats are
    taken, and new ones are refused.
    """

    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.server = mysql.Private()
        self.server.start()
        self.url = self.server.place_database("onbeat", disk / "onbeat")

    def refusing(self) -> Any:
        return filled(self.disk)

    async def is_felt(self, fleet: Any) -> bool:
        return await refuses_rows(fleet)


def owned_by_server(disk: Any) -> Any:
    place = disk / "tables"
    place.mkdir()
    shutil.chown(place, postgres.unprivileged())
    return place


@pytest.fixture
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "mariadb":
        with small_disk(tmp_path / "disk") as disk:
            full = FullUnderMysql(disk)
            try:
                yield full
            finally:
                full.server.stop()
    elif request.param == "sqlite":
        with small_disk(tmp_path / "disk") as disk:
            yield FullUnderSqlite(disk)
    else:
        with (
            postgres.private_server() as server,
            small_disk(server.folder / "disk") as disk,
        ):
            yield FullUnderPostgres(server, disk)


@pytest.mark.parametrize("full", ["sqlite", "postgres", "mariadb"], indirect=True)
async def test_a_disk_that_is_full_for_twice_the_lease_kills_nobody(
    full: Any, tmp_path: Path
) -> None:
    async with outlived(full, tmp_path) as fleet:
        await eventually(lambda: full.is_felt(fleet), "writes are refused")
        await lasts(2 * LEASE)


# Interpreters that are held.


NEIGHBOURS = ["stay"] * 6 + ["stay.apart"]


async def test_a_call_that_holds_the_interpreter_for_long_costs_nobody_an_attempt(
    fleet: Any,
) -> None:
    """Neither the job itself, nor others in its worker, nor those in processes of their own."""
    fleet.start("worker", WORK)
    fleet.start("watcher", WATCH)
    await fleet.begin(*NEIGHBOURS)
    await fleet.send("hold")
    await eventually(lambda: len(fleet.began) == len(NEIGHBOURS) + 1, "the interpreter is held")
    await fleet.beats_rise(4)
    await eventually(lambda: fleet.has_ended("hold"), "the interpreter is let go")
    assert await fleet.losses() == []
    assert len(fleet.began) == len(NEIGHBOURS) + 1
    await fleet.end()


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_worker_that_is_stopped_is_dead_after_its_lease_all_the_same(fleet: Any) -> None:
    stopped = fleet.start("stopped", WORK)
    fleet.start("watcher", WATCH)
    await fleet.begin("stay")
    await asyncio.to_thread(freeze, stopped, fleet.place)
    fleet.start("heir", WORK)
    began = time.monotonic()
    await eventually(lambda: len(fleet.began) == 2, "the heir has the job")
    assert time.monotonic() - began < 10 * LEASE, "its sidecar would beat for twenty"
    stopped.signal(signal.SIGCONT)
    (job,) = await fleet.all_ended()
    assert (job.token, job.lost) == (2, 1)
    (lost, _) = await fleet.store.attempts(job.id)
    assert (lost.outcome, lost.worker == job.worker) == (OutcomeName.LOST, False)


async def test_a_job_whose_workers_stood_still_and_went_on_is_no_poison(fleet: Any) -> None:
    """They count as dead meanwhile, each with nothing but this job; what they say afterwards counts."""
    members = {fleet.start(name, WORK).pid: name for name in ("one", "two")}
    fleet.start("watcher", WATCH)
    await fleet.begin("stay")
    for times in range(1, LOST_MAX + 2):
        (job,) = await fleet.jobs()
        rows = {row.id: row.pid for row in await fleet.store.workers()}
        holder = fleet.running[members[rows[job.worker]]]
        await asyncio.to_thread(freeze, holder, fleet.place)
        await eventually(lambda: len(fleet.began) == times + 1, "another has the job")  # noqa: B023
        holder.signal(signal.SIGCONT)
        await eventually(partial(fleet.is_known, job.worker), "it has returned")
    (job,) = await fleet.all_ended()
    assert (job.state, job.lost) == (JobState.SUCCEEDED, LOST_MAX + 1)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_sidecar_ends_with_its_worker_however_that_ends(fleet: Any) -> None:
    killed, drained = fleet.start("killed", WORK), fleet.start("drained", WORK)
    sidecars = [
        await eventually(partial(child_of, one.pid), "it has one") for one in (killed, drained)
    ]
    killed.kill()
    (fleet.place / "end").touch()
    assert drained.ended() == 0
    for pid in sidecars:
        await eventually(lambda: not is_process_running(pid), "it has ended")  # noqa: B023


def child_of(pid: Any) -> Any:
    """The only child of the process, whichever of its threads has started it."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    result = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
    return result[0] if result else None
