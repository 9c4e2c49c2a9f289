"""Takes back jobs whose worker has died, or whose timed lease has run out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from onbeat.engine.session_watcher import SessionWatcher
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import RESCUE_MAX
from onbeat.model.outcome import UNANSWERED, Evidence, Lost, Outcome, Released
from onbeat.model.worker import RECEIVER, WorkerRecord, has_calls, is_carried
from onbeat.ports.clock import Clock
from onbeat.ports.liveness import Liveness
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import RescuerStore, Settlement, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.liveness import (
    UNWATCHED,
    in_doubt,
    is_proof,
    may_end_timed,
    observe,
    verdicts,
    wants_proof,
)
from onbeat.rules.reports import unreported
from onbeat.rules.settlement import attempt_of, settle
from onbeat.rules.suspicion import returned_after, unanswered_among

Verdicts = Mapping[WorkerId, Evidence]


class Rescuer:
    def __init__(
        self,
        store: RescuerStore,
        settler: WorkerStore,
        clock: Clock,
        randomness: Randomness,
        liveness: Liveness,
        telemetry: Telemetry,
        faults: FaultTally | None,
        sessions: SessionWatcher,
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called when a round is due because a worker's process has ended."""
        self.store = store
        self.settler = settler
        self.clock = clock
        self.randomness = randomness
        self.liveness = liveness
        self.telemetry = telemetry
        self.faults = faults or FaultTally()
        self.sessions = sessions
        self.on_end = on_end
        self.watch = UNWATCHED
        self.workers: Sequence[WorkerRecord] = ()
        self.loss_outcomes = LossOutcomes()

    async def rescue_expired(self) -> int:
        """Settle every job whose lease has run out. Returns how many there were.

        Any failure restarts the watch, since earlier silence of a worker then proves nothing.
        """
        try:
            return await self.rescue_round()
        except BaseException:
            self.watch = UNWATCHED
            raise

    async def watch_processes(self) -> None:
        """Let the kernel tell of the end of each process, also of one that has just begun."""
        workers = await self.store.workers()
        living = [worker for worker in workers if not self.liveness.is_gone(worker)]
        self.liveness.watch(living, self.on_end)
        if len(living) < len(workers):
            self.on_end()

    def close(self) -> None:
        """Watch no process any more."""
        self.liveness.watch((), self.on_end)
        self.sessions.close()

    async def rescue_round(self) -> int:
        dead = await self.watch_workers()
        jobs = await self.store.abandoned_jobs(dead.keys(), self.clock.now(), RESCUE_MAX)
        lost = self.confirm_lost(jobs)
        await self.settle_abandoned(lost, dead)
        if dead and len(jobs) < RESCUE_MAX:
            judged = {worker.id: worker.beat for worker in self.workers}
            await self.store.forget_workers(dead.keys(), judged)
        return len(lost)

    async def watch_workers(self) -> Verdicts:
        """One round of the watch: a write if proof is wanted, then a read of the workers."""
        proven = wants_proof(self.watch, self.clock.monotonic()) and await self.has_written()
        self.workers = await self.store.workers()
        self.watch = observe(self.watch, self.workers, self.clock.monotonic(), proven=proven)
        gone = {worker.id for worker in self.workers if self.liveness.is_gone(worker)}
        self.liveness.watch([row for row in self.workers if row.id not in gone], self.on_end)
        left = [row.id for row in self.workers if row.session in self.sessions.ended]
        return verdicts(self.watch, gone, left)

    async def has_written(self) -> bool:
        """Write as the workers in doubt would. Raises `Unavailable` if the store refuses it.

        Writes to their own rows: a full disk may have room in one table and none in another.
        """
        began = self.clock.monotonic()
        doubted = in_doubt(self.watch, began)
        if not doubted:
            await self.store.ping()
        elif not await self.store.rewrite_workers(doubted):
            return False
        return is_proof(self.clock.monotonic() - began)

    def confirm_lost(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs that are lost; a timed lease also needs proof that the store took writes."""
        is_overdue = any(job.lease_until is not None for job in jobs)
        self.watch = replace(self.watch, is_overdue=is_overdue)
        if may_end_timed(self.watch):
            return jobs
        return [job for job in jobs if job.lease_until is None]

    async def settle_abandoned(self, jobs: Sequence[Job], dead: Verdicts) -> None:
        if not jobs:
            return
        now = self.clock.now()
        outcomes = self.loss_outcomes.of(jobs, dead)
        settlements = [
            await self.lost_settlement(job, outcome, now)
            for job, outcome in zip(jobs, outcomes, strict=True)
        ]
        settled = await self.settler.settle(settlements)
        for job, settlement, was_ours in zip(jobs, settlements, settled, strict=True):
            if was_ours:
                self.faults.note(settlement.job, settlement.attempt)
            if was_ours and job.worker is not None:
                self.telemetry.rescued(settlement.job, job.worker)

    async def lost_settlement(self, job: Job, outcome: Outcome, now: datetime) -> Settlement:
        """Before a job fails permanently, discount its losses whose worker has returned."""
        chance = self.randomness.fraction()
        settled = settle(job, outcome, now, chance)
        if isinstance(outcome, Lost) and settled.state is JobState.FAILED:
            attempts = await self.store.attempts(job.id)
            outcome = replace(
                outcome,
                returned=returned_after(attempts, self.workers),
                unanswered=unanswered_among(attempts),
            )
            settled = settle(job, outcome, now, chance)
        return Settlement(job=settled, attempt=attempt_of(job, outcome, now))


REASONS: Final = {
    Evidence.ENDED: "worker {} ended: its process is gone",
    Evidence.LEFT: "worker {} ended: the store's server lost all of its connections at once",
    Evidence.SILENT: (
        "no heartbeat from worker {} for its whole lease, although the store accepted writes"
    ),
    Evidence.EXPIRED: "worker {} did not renew its lease in time",
    Evidence.ROWLESS: "worker {} is not known to the store",
}


class LossOutcomes:
    """The outcomes of attempts whose leases have run out, with the size of their company.

    Jobs of a dead worker that do not fit in one round are settled in several. No round sees them
    all, so their company counts as `RESCUE_MAX`.
    """

    def __init__(self) -> None:
        self.cut: set[WorkerId] = set()

    def of(self, jobs: Sequence[Job], dead: Verdicts) -> list[Outcome]:
        companies = Counter(job.worker for job in jobs if job.worker is not None)
        is_cut = len(jobs) >= RESCUE_MAX
        self.cut = self.cut | set(companies) if is_cut else self.cut & set(companies)
        companies |= Counter(dict.fromkeys(self.cut, RESCUE_MAX))
        died = [worker for worker in companies if worker in dead and not is_carried(worker)]
        is_shared = len(died) > 1
        return [outcome_of(job, dead, companies, is_shared=is_shared) for job in jobs]


def outcome_of(
    job: Job, dead: Verdicts, companies: Mapping[WorkerId, int], *, is_shared: bool
) -> Outcome:
    """The outcome of an attempt whose lease has run out; `Released` if a carrier still held it.

    A call to remote workers may have been seen by none: that proves nothing against the job.
    """
    assert job.worker is not None, "a running job has a worker"
    if is_carried(job.worker):
        is_call = has_calls(job.worker)
        return Lost(UNANSWERED, Evidence.UNANSWERED, company=0) if is_call else Released()
    if job.worker == RECEIVER:
        return unreported(job)
    if job.lease_until is not None:
        evidence = Evidence.EXPIRED
    else:
        evidence = dead.get(job.worker, Evidence.ROWLESS)
    return Lost(
        REASONS[evidence].format(job.worker),
        evidence,
        company=companies[job.worker],
        is_shared=is_shared,
    )
