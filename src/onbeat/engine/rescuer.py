"""Takes back jobs whose worker has died, or whose timed lease has run out."""

from collections.abc import Collection, Sequence
from datetime import datetime

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import RESCUE_MAX
from onbeat.model.outcome import Lost, Outcome, Released
from onbeat.model.worker import Worker, is_carried
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.liveness import Liveness
from onbeat.ports.store import RescuerStore, Settlement, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.settling import attempt_of, settle

GAP_MAX = 5.0
"""Seconds between two readings that count as silence; a longer gap proves nothing beyond it."""


class Watch:
    """Which workers are dead, by this watcher's own monotonic clock alone.

    A worker is dead when its beat has not risen for its lease's length while the store could be
    read all that time: no clocks of two machines are compared, and an outage of the store, which
    silences all workers at once, makes none of them dead. A fresh watcher waits one whole lease.
    A machine that was suspended as a whole finds all beats old when it wakes; as the watcher slept
    too, that long gap between its readings counts for little.
    """

    def __init__(self) -> None:
        self.seen: dict[WorkerId, tuple[int, float]] = {}
        self.read_at: float | None = None

    def restart(self) -> None:
        """A reading failed: what was seen before it proves nothing any more."""
        self.seen.clear()
        self.read_at = None

    def silent(self, workers: Sequence[Worker], monotonic: float) -> set[WorkerId]:
        """Note this reading; the answer is who has been silent for too long."""
        gap = 0.0 if self.read_at is None else min(monotonic - self.read_at, GAP_MAX)
        before, self.seen, self.read_at = self.seen, {}, monotonic
        dead: set[WorkerId] = set()
        for worker in workers:
            beat, silence = before.get(worker.id, (None, 0.0))
            silence = silence + gap if beat == worker.beat else 0.0
            self.seen[worker.id] = (worker.beat, silence)
            if silence > worker.lease_seconds:
                dead.add(worker.id)
        return dead


class Rescuer:
    def __init__(
        self,
        store: RescuerStore,
        settler: WorkerStore,
        clock: Clock,
        chance: Chance,
        liveness: Liveness,
        telemetry: Telemetry,
    ) -> None:
        self.store = store
        self.settler = settler
        self.clock = clock
        self.chance = chance
        self.liveness = liveness
        self.telemetry = telemetry
        self.watch = Watch()

    async def rescue_expired(self) -> int:
        """Settle every job whose lease has run out. Returns how many there were."""
        try:
            workers = await self.store.workers()
            dead = self.dead_among(workers)
            jobs = await self.store.abandoned(dead, self.clock.now(), RESCUE_MAX)
        except BaseException:
            self.watch.restart()
            raise
        await self.settle_abandoned(jobs)
        if dead and len(jobs) < RESCUE_MAX:
            await self.store.forget_workers(dead)
        return len(jobs)

    def dead_among(self, workers: Sequence[Worker]) -> Collection[WorkerId]:
        gone = {worker.id for worker in workers if self.liveness.is_gone(worker)}
        return gone | self.watch.silent(workers, self.clock.monotonic())

    async def settle_abandoned(self, jobs: Sequence[Job]) -> None:
        now = self.clock.now()
        settlements = [self.abandoned(job, now) for job in jobs]
        settled = await self.settler.settle(settlements)
        for job, settlement, was_ours in zip(jobs, settlements, settled, strict=True):
            if was_ours and job.worker is not None:
                self.telemetry.rescued(settlement.job, job.worker)

    def abandoned(self, job: Job, now: datetime) -> Settlement:
        outcome = outcome_of(job)
        settled = settle(job, outcome, now, self.chance.fraction())
        return Settlement(job=settled, attempt=attempt_of(job, outcome, now))


def outcome_of(job: Job) -> Outcome:
    """What an attempt came to whose lease has run out; one only on its way had not begun."""
    if is_carried(job.worker):
        return Released()
    if job.lease_until is not None:
        return Lost(f"worker {job.worker} did not renew its lease in time")
    return Lost(f"worker {job.worker} died or was not heard of")
