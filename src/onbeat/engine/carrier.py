"""Claims due jobs and announces them over a broker to workers that have the store at hand.

The carrier holds the lease of a job until a worker has started it. What a broker loses is announced
again; what it doubles is refused by the store; when the carrier dies, its jobs wait again at once.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from onbeat.engine.crew import Crew
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX, seconds_until
from onbeat.engine.running import Running
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.outcome import Released
from onbeat.ports.clock import Clock
from onbeat.ports.store import (
    ClaimRequest,
    DispatcherStore,
    Held,
    RenewerStore,
    Settlement,
    WorkerStore,
)
from onbeat.ports.transport import Envelope
from onbeat.rules.settling import attempt_of, settle
from onbeat.wire.work import announcement, run_queue

LOOK_PERIOD: Final = 0.02  # seconds between looks at what has been started, while there is no room
QUIET_PERIOD: Final = 0.5  # the same while there is room
PATIENCE: Final = 4.0  # seconds until a job that nobody has started is announced once more
PATIENCE_MAX: Final = 60.0
JOBS_PER_MESSAGE: Final = 50
MESSAGES_PER_WORKER: Final = 4  # of one round: few enough to be large, enough to be shared fairly


class CarrierStore(DispatcherStore, RenewerStore, WorkerStore, Protocol):
    """What a carrier asks of the store."""


class Announcer(Protocol):
    """Where announcements go: a broker, or one that watches it."""

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None: ...


class UnderWay:
    """A claimed job that no worker is known to have started."""

    __slots__ = ("job", "sent_at", "times")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.sent_at: float | None = None
        self.times = 0

    def is_overdue(self, now: float) -> bool:
        """Whether it has to be announced: it never was, or nobody has come for it in good time."""
        if self.sent_at is None:
            return True
        return now - self.sent_at > min(PATIENCE_MAX, PATIENCE * (1 << min(self.times - 1, 8)))


class Carrier:
    def __init__(
        self,
        store: CarrierStore,
        broker: Announcer,
        clock: Clock,
        crew: Crew,
        id: WorkerId,
        queues: tuple[str, ...] | None,
    ) -> None:
        self.store = store
        self.broker = broker
        self.clock = clock
        self.crew = crew
        self.id = id
        self.queues = queues
        self.under_way: dict[JobId, UnderWay] = {}
        self.strays: frozenset[JobId] = frozenset()
        self.named: set[str] = set()
        self.looked_at = -math.inf
        self.look_period = LOOK_PERIOD
        self.is_behind = False
        # A renewer beats for workers; a carrier runs nothing, and hears what it holds elsewhere.
        self.running: Mapping[JobId, Running] = {}

    def compare(self, known: Sequence[Running], held: Sequence[Held]) -> None:
        """A beat's word on the leases; `look_after` asks when it needs to know."""

    async def step(self) -> float:
        """One round; the answer is the seconds until there may be something to do.

        What is due goes first, as each question before it would make it late. But as long as what
        was claimed before could not be announced, no more is claimed.
        """
        if self.is_behind:
            await self.look_after()
        if not self.crew.lanes:
            await self.crew.look()
        limit, lanes = self.limit(), self.crew.lanes
        count, next_due_at = await self.carry_due(limit)
        if count == limit > 0:
            return 0.0 if self.room() > 0 else self.look_period
        await self.crew.look()
        await self.look_after()
        if self.room() == 0:
            return self.look_period
        if limit == 0 or self.crew.lanes != lanes:
            return 0.0
        return seconds_until(next_due_at, self.clock, self.period())

    def period(self) -> float:
        if self.crew.count == 0:
            return self.crew.period
        return QUIET_PERIOD if self.under_way else LOOK_AGAIN_MAX

    def room(self) -> int:
        return max(0, self.crew.room - len(self.under_way))

    def limit(self) -> int:
        """How many jobs one claim may bring."""
        return min(self.room(), CLAIM_MAX)

    async def carry_due(self, limit: int) -> tuple[int, datetime | None]:
        """Claim and announce. Returns how many, and when the next job could be due."""
        if limit == 0 or not self.crew.lanes:
            return 0, None
        claimed = await self.store.claim(
            ClaimRequest(
                worker=self.id,
                now=self.clock.now(),
                limit=limit,
                lanes=self.crew.lanes,
                queues=self.queues,
            )
        )
        fresh = [UnderWay(job) for job in claimed.jobs]
        if fresh:
            self.look_period = LOOK_PERIOD
        self.under_way.update((one.job.id, one) for one in fresh)
        await self.announce(fresh)
        return len(fresh), claimed.next_due_at

    async def look_after(self) -> None:
        """Forget what has been started, and announce again what nobody has come for."""
        now = self.clock.monotonic()
        if now - self.looked_at < (self.look_period if self.room() == 0 else QUIET_PERIOD):
            return
        await self.look()
        await self.announce([one for one in self.under_way.values() if one.is_overdue(now)])
        self.is_behind = False

    async def look(self) -> None:
        """Forget what has been started, and find what is held and was not known here."""
        held = {lease.job_id for lease in await self.store.held(self.id)}
        self.looked_at = self.clock.monotonic()
        left = {id: one for id, one in self.under_way.items() if id in held}
        # While nothing moves, workers are full, and there is less and less to be seen.
        moves = len(left) < len(self.under_way)
        self.look_period = LOOK_PERIOD if moves else min(QUIET_PERIOD, 2 * self.look_period)
        self.under_way = left
        await self.adopt_strays(held)

    async def retreat(self, chance: float) -> None:
        """While nothing can be announced: claim nothing, and let others have what is held."""
        await self.look()
        await self.give_back(chance)

    async def adopt_strays(self, held: Collection[JobId]) -> None:
        """Take on leases of which nothing is known here: the answer of their claim was lost."""
        strays = frozenset(held) - self.under_way.keys()
        for id in strays & self.strays:
            job = await self.store.job(id)
            if job is not None and job.worker == self.id:
                self.under_way[id] = UnderWay(job)
        self.strays = strays

    async def give_back(self, chance: float) -> None:
        """Let others claim at once what no worker has started."""
        now, outcome = self.clock.now(), Released()
        for jobs in batched([one.job for one in self.under_way.values()], CLAIM_MAX):
            await self.store.settle(
                [
                    Settlement(
                        job=settle(job, outcome, now, chance), attempt=attempt_of(job, outcome, now)
                    )
                    for job in jobs
                ]
            )
            for job in jobs:
                del self.under_way[job.id]

    async def announce(self, ones: Sequence[UnderWay]) -> None:
        """Publish what these are; raises `Unavailable`, and they are overdue, when that fails."""
        by_queue: dict[str, list[UnderWay]] = defaultdict(list)
        for one in ones:
            by_queue[one.job.queue].append(one)
        await self.name(by_queue)
        for queue, group in by_queue.items():
            await self.publish(queue, group)

    async def name(self, queues: Iterable[str]) -> None:
        new = set(queues) - self.named
        if new:
            await self.store.name_queues(new)
            self.named |= new

    async def publish(self, queue: str, group: Sequence[UnderWay]) -> None:
        size = math.ceil(len(group) / (MESSAGES_PER_WORKER * max(1, self.crew.count)))
        parts = batched([one.job for one in group], min(JOBS_PER_MESSAGE, size))
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
            self.is_behind = True
            raise
        now = self.clock.monotonic()
        for one in group:
            one.sent_at = now
            one.times += 1


def batched(jobs: Iterable[Job], size: int) -> list[tuple[Job, ...]]:
    rest = iter(jobs)
    parts: list[tuple[Job, ...]] = []
    while part := tuple(islice(rest, size)):
        parts.append(part)
    return parts
