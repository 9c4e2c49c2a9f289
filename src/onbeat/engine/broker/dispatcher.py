"""Claims due jobs and announces them over a broker to workers that have access to the store.

The carrier holds the lease of a job until a worker has started it. A lost announcement is sent
again, and the store rejects a duplicate. After a carrier's death its jobs are due again at once.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from onbeat.engine.broker.fleet import FleetView
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX, seconds_until
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.outcome import Released
from onbeat.ports.clock import Clock
from onbeat.ports.store import (
    ClaimRequest,
    DispatcherStore,
    HeartbeatStore,
    Settlement,
    WorkerStore,
)
from onbeat.ports.transport import Envelope
from onbeat.rules.settlement import attempt_of, settle
from onbeat.wire.broker_messages import announcement, run_queue

LOOK_PERIOD: Final = 0.02  # seconds between checks for started jobs while there is no free slot
QUIET_PERIOD: Final = 0.5  # the same while there are free slots
PATIENCE: Final = 4.0  # seconds until a job that no worker has started is announced again
PATIENCE_MAX: Final = 60.0
JOBS_PER_MESSAGE: Final = 50
MESSAGES_PER_WORKER: Final = 4  # per round: messages stay large, and jobs are shared evenly


Lease = tuple[JobId, Token]


class BrokerDispatcherStore(DispatcherStore, HeartbeatStore, WorkerStore, Protocol):
    """The store operations that a carrier needs."""


class Announcer(Protocol):
    """Publishes announcements: a broker, or a `BrokerWatch` around one."""

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None: ...


class InFlightJob:
    """A claimed job that no worker is known to have started."""

    __slots__ = ("job", "sent_at", "times")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.sent_at: float | None = None
        self.times = 0

    @property
    def lease(self) -> Lease:
        return self.job.id, self.job.token

    def is_overdue(self, now: float) -> bool:
        """Whether the job has to be announced, for the first time or again."""
        if self.sent_at is None:
            return True
        return now - self.sent_at > min(PATIENCE_MAX, PATIENCE * (1 << min(self.times - 1, 8)))


class BrokerDispatcher:
    def __init__(
        self,
        store: BrokerDispatcherStore,
        broker: Announcer,
        clock: Clock,
        fleet: FleetView,
        id: WorkerId,
        queues: tuple[str, ...] | None,
        guard: LeaseGuard,
    ) -> None:
        self.store = store
        self.guard = guard
        self.broker = broker
        self.clock = clock
        self.fleet = fleet
        self.id = id
        self.queues = queues
        self.in_flight: dict[JobId, InFlightJob] = {}
        self.orphaned_leases: frozenset[Lease] = frozenset()
        self.named_queues: set[str] = set()
        self.looked_at = -math.inf
        self.look_period = LOOK_PERIOD
        self.needs_reconciling = False

    async def step(self) -> float:
        """One round; returns the seconds until the next one is useful.

        Due jobs are claimed first, since any query before that would delay them. Nothing new is
        claimed while claimed jobs could not be announced.
        """
        if self.needs_reconciling:
            await self.refresh_in_flight()
        if not self.fleet.lanes:
            await self.fleet.refresh()
        limit, lanes = self.limit(), self.fleet.lanes
        count, next_due_at = await self.dispatch_due(limit)
        if count == limit > 0:
            return 0.0 if self.free_slots() > 0 else self.look_period
        await self.fleet.refresh()
        await self.refresh_in_flight()
        if self.free_slots() == 0:
            return self.look_period
        if limit == 0 or self.fleet.lanes != lanes:
            return 0.0
        return seconds_until(next_due_at, self.clock, self.period())

    def period(self) -> float:
        if self.fleet.count == 0:
            return self.fleet.period
        return QUIET_PERIOD if self.in_flight else LOOK_AGAIN_MAX

    def free_slots(self) -> int:
        if not self.guard.may_claim():
            return 0
        return max(0, self.fleet.free_slots - len(self.in_flight))

    def limit(self) -> int:
        """How many jobs the next claim may return."""
        return min(self.free_slots(), CLAIM_MAX)

    async def dispatch_due(self, limit: int) -> tuple[int, datetime | None]:
        """Claim and announce. Returns how many, and when the next job could be due."""
        if limit == 0 or not self.fleet.lanes:
            return 0, None
        claimed = await self.store.claim(
            ClaimRequest(
                worker=self.id,
                now=self.clock.now(),
                limit=limit,
                lanes=self.fleet.lanes,
                queues=self.queues,
            )
        )
        fresh = [InFlightJob(job) for job in claimed.jobs]
        if fresh:
            self.look_period = LOOK_PERIOD
        self.in_flight.update((one.job.id, one) for one in fresh)
        await self.announce(fresh)
        return len(fresh), claimed.next_due_at

    async def refresh_in_flight(self) -> None:
        """Forget started jobs, and announce again the jobs that no worker has started in time."""
        now = self.clock.monotonic()
        if now - self.looked_at < (self.look_period if self.free_slots() == 0 else QUIET_PERIOD):
            return
        await self.reconcile_in_flight()
        await self.announce([one for one in self.in_flight.values() if one.is_overdue(now)])
        self.needs_reconciling = False

    async def reconcile_in_flight(self) -> None:
        """Forget started jobs, and look for leases that are unknown to this process."""
        leases = await self.store.held_leases(self.id)
        held = {(lease.job_id, lease.token) for lease in leases}
        self.looked_at = self.clock.monotonic()
        # A job that was started and waits again may be held once more, under another token.
        left = {id: one for id, one in self.in_flight.items() if one.lease in held}
        # While no job is started, the workers are full: check less and less often.
        moves = len(left) < len(self.in_flight)
        self.look_period = LOOK_PERIOD if moves else min(QUIET_PERIOD, 2 * self.look_period)
        self.in_flight = left
        await self.adopt_orphaned_leases(held)

    async def hand_over_all(self, chance: float) -> None:
        """While nothing can be announced, release all unstarted jobs for others to claim."""
        await self.reconcile_in_flight()
        await self.hand_back(chance)

    async def adopt_orphaned_leases(self, held: Collection[Lease]) -> None:
        """Adopt leases that are unknown to this process: the answer to their claim was lost."""
        strays = frozenset(held).difference(one.lease for one in self.in_flight.values())
        for id, _ in sorted(strays & self.orphaned_leases):
            job = await self.store.job(id)
            if job is not None and job.worker == self.id:
                self.in_flight[id] = InFlightJob(job)
        self.orphaned_leases = strays

    async def hand_back(self, chance: float) -> None:
        """Release the jobs that no worker has started, so that others can claim them at once."""
        now, outcome = self.clock.now(), Released()
        for jobs in batches([one.job for one in self.in_flight.values()], CLAIM_MAX):
            await self.store.settle(
                [
                    Settlement(
                        job=settle(job, outcome, now, chance), attempt=attempt_of(job, outcome, now)
                    )
                    for job in jobs
                ]
            )
            for job in jobs:
                del self.in_flight[job.id]

    async def announce(self, ones: Sequence[InFlightJob]) -> None:
        """Publish the jobs. On failure raises `Unavailable`; the jobs then count as overdue."""
        by_queue: dict[str, list[InFlightJob]] = defaultdict(list)
        for one in ones:
            by_queue[one.job.queue].append(one)
        await self.name_queues(by_queue)
        for queue, group in by_queue.items():
            await self.publish(queue, group)

    async def name_queues(self, queues: Iterable[str]) -> None:
        new = set(queues) - self.named_queues
        if new:
            await self.store.name_queues(new)
            self.named_queues |= new

    async def publish(self, queue: str, group: Sequence[InFlightJob]) -> None:
        size = math.ceil(len(group) / (MESSAGES_PER_WORKER * max(1, self.fleet.count)))
        parts = batches([one.job for one in group], min(JOBS_PER_MESSAGE, size))
        envelopes = [
            Envelope(
                body=announcement(jobs),
                id=f"{jobs[0].id}.{jobs[0].token}",
                key=jobs[0].group,
                fleeting=True,
            )
            for jobs in parts
        ]
        try:
            await self.broker.publish(run_queue(queue), envelopes)
        except Unavailable:
            for one in group:
                one.sent_at = None
            self.needs_reconciling = True
            raise
        now = self.clock.monotonic()
        for one in group:
            one.sent_at = now
            one.times += 1


def batches(jobs: Iterable[Job], size: int) -> list[tuple[Job, ...]]:
    rest = iter(jobs)
    parts: list[tuple[Job, ...]] = []
    while part := tuple(islice(rest, size)):
        parts.append(part)
    return parts
