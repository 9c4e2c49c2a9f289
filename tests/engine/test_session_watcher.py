"""The rescuer of a store whose server tells which processes have left it."""

import pytest
from msgspec.structs import replace

from engine.harness import EngineHarness
from onbeat.engine.session_watcher import SessionWatcher
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.job import JobState
from onbeat.model.session_look import SessionLook
from onbeat.model.worker import WorkerRecord
from onbeat.rules.liveness import LEFT_SILENCE_MAX
from onbeat.testing.build import SECOND, a_job, a_worker


class Server:
    """The sessions on a server; `down` makes looks fail."""

    name = "me"

    def __init__(self, *names: str) -> None:
        self.shown = SessionLook(frozenset({self.name, *names}), watchers=1, ended=0, lost=0)
        self.down = False

    def kill(self, name: str) -> None:
        self.shown = replace(self.shown, names=self.shown.names - {name}, lost=self.shown.lost + 1)

    async def look(self) -> SessionLook:
        if self.down:
            raise Unavailable("the server is away")
        return self.shown

    def close(self) -> None:
        pass


class Watched:
    """A bench whose rescuer watches a server, and a worker with a job."""

    def __init__(self, bench: EngineHarness, lease: float = 15.0) -> None:
        self.bench = bench
        self.row: WorkerRecord = a_worker(session="other", lease_seconds=lease)
        self.server = Server("other")
        self.ends: list[str] = []
        watcher = SessionWatcher(self.server, bench.clock, lambda: self.ends.append("end"))
        bench.rescuer.sessions = watcher
        self.job = a_job()

    async def begin(self) -> "Watched":
        await self.bench.store.heartbeat(self.row)
        await self.bench.store.enqueue([self.job])
        await self.bench.claim(self.row.id)
        await self.rest(2)
        return self

    async def rest(self, seconds: int) -> int:
        """Rounds and looks once a second; returns how many jobs were rescued."""
        count = 0
        for _ in range(seconds):
            await self.bench.rescuer.sessions.step()
            count += await self.bench.rescuer.rescue_expired()
            self.bench.clock.set(self.bench.clock.now() + SECOND)
        return count


async def test_the_jobs_of_a_worker_that_left_its_sessions_wait_again_at_once() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        watched = await Watched(bench).begin()
        watched.server.kill("other")
        assert await watched.rest(4) == 1
        after = await bench.job(watched.job)
        assert (after.state, after.lost) == (JobState.WAITING, 1)
        (attempt,) = await bench.store.attempts(after.id)
        assert (attempt.outcome, attempt.worker) == (OutcomeName.LOST, watched.row.id)
        assert "lost all of its connections" in after.error
        assert watched.ends == ["end"]
        assert watched.row.id not in [row.id for row in await bench.store.workers()]


async def test_after_a_failed_look_a_worker_without_sessions_has_its_whole_lease() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        watched = await Watched(bench).begin()
        watched.server.down = True
        with pytest.raises(Unavailable):
            await bench.rescuer.sessions.step()
        watched.server.down = False
        watched.server.kill("other")
        assert await watched.rest(12) == 0
        assert await watched.rest(4) == 1
        assert watched.ends == []


async def test_a_worker_that_was_silent_before_it_left_has_its_whole_lease() -> None:
    """Its network may be silent, and the server's probes have ended its sessions."""
    async with EngineHarness(work=lambda: None) as bench:
        watched = await Watched(bench, lease=60.0).begin()
        await watched.rest(int(LEFT_SILENCE_MAX))
        watched.server.kill("other")
        assert await watched.rest(20) == 0
        assert (await bench.job(watched.job)).state is JobState.RUNNING


async def test_a_worker_without_named_sessions_has_its_whole_lease() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        watched = Watched(bench)
        watched.row = replace(watched.row, session="")
        await watched.begin()
        watched.server.kill("other")
        assert await watched.rest(10) == 0
