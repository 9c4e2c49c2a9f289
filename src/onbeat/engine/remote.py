"""Sends jobs to workers in any language, which only speak the protocol.

Such a job is claimed and started when it is sent. Its lease is timed: it runs out unless the worker
renews it over HTTP, or its result comes in time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.engine.carrier import CarrierStore
from onbeat.engine.crew import Crew
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX, seconds_until
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.target import HandlerTarget, lane_of
from onbeat.model.worker import carrier_id, remote_id
from onbeat.ports.clock import Clock
from onbeat.ports.store import ClaimRequest
from onbeat.ports.target import Lanes
from onbeat.ports.transport import Broker, Envelope
from onbeat.wire.work import FETCH_HEADER, work_call, work_headers, work_queue

IN_FLIGHT_MAX: Final = 1_000  # jobs sent whose result is not in: what a broker's queue may grow by
LOOK_PERIOD: Final = 0.05
PAYLOAD_BYTES_SENT_MAX: Final = 131_072  # a larger one is fetched, as some brokers take no more
CREW_GRACE: Final = 5.0  # seconds that workers of this program have to show themselves

GiveBack = Callable[[Job], Awaitable[None]]


class RemoteTasks(msgspec.Struct, frozen=True):
    """Which tasks are run elsewhere.

    `declared` are by the settings. A task that this program has, and that no worker with the store
    at hand was ever seen to know, is taken to be run elsewhere as well: sent on trial.
    """

    declared: frozenset[str]
    known_here: Lanes

    def on_trial(self, crew: Crew) -> frozenset[str]:
        if crew.age < CREW_GRACE:
            return frozenset()
        here = frozenset(lane for lane in self.known_here() if not lane.startswith("@"))
        return here - crew.ever - self.declared


class RemoteSender:
    """A job on trial whose lease runs out has cost no attempt: perhaps nobody listens."""

    def __init__(
        self,
        store: CarrierStore,
        broker: Broker,
        clock: Clock,
        crew: Crew,
        id: str,
        queues: tuple[str, ...] | None,
        tasks: RemoteTasks,
        lease: timedelta,
        give_back: GiveBack,
    ) -> None:
        self.store = store
        self.broker = broker
        self.clock = clock
        self.crew = crew
        self.id = remote_id(id)
        self.trial_id = carrier_id(f"trial:{id}")
        self.queues = queues
        self.tasks = tasks
        self.lease = lease
        self.give_back = give_back
        self.tried: dict[JobId, Job] = {}
        self.batch = CLAIM_MAX
        self.claiming = asyncio.Lock()

    async def step(self) -> float:
        """One round; the answer is the seconds until there may be something to do."""
        await self.crew.look()
        await self.recall()
        delays = [
            await self.send_for(self.id, self.tasks.declared),
            await self.send_for(self.trial_id, self.tasks.on_trial(self.crew)),
        ]
        return min(delays)

    async def recall(self) -> None:
        """A worker has come that knows what was sent on trial: it shall have it at once."""
        known = [job for job in self.tried.values() if lane_of(job.target) in self.crew.lanes]
        for job in known:
            await self.give_back(job)
            del self.tried[job.id]

    async def send_for(self, holder: WorkerId, lanes: frozenset[str]) -> float:
        if not lanes:
            return LOOK_AGAIN_MAX
        held = await self.store.held(holder)
        if holder == self.trial_id:
            self.keep_tried({lease.job_id for lease in held})
        room = IN_FLIGHT_MAX - len(held)
        if room <= 0:
            return LOOK_PERIOD
        count, next_due_at = await self.send_due(holder, lanes, room)
        if count > 0:
            return 0.0
        return seconds_until(next_due_at, self.clock)

    def keep_tried(self, held: Iterable[JobId]) -> None:
        self.tried = {id: self.tried[id] for id in held if id in self.tried}

    async def send_due(
        self, holder: WorkerId, lanes: frozenset[str], room: int
    ) -> tuple[int, datetime | None]:
        """Claim and send. What cannot be sent is given back at once: it has cost no attempt."""
        await self.broker.ping()
        request = ClaimRequest(
            worker=holder,
            now=self.clock.now(),
            limit=min(room, self.batch),
            lanes=lanes,
            queues=self.queues,
            lease=self.lease,
        )
        async with self.claiming:
            claimed = await self.store.claim(request)
        # A broker that takes nothing is tried with one job, not with a thousand each time.
        batch, self.batch = self.batch, 1
        unsent = {job.id: job for job in claimed.jobs}
        try:
            for queue, jobs in by_queue(claimed.jobs).items():
                await self.broker.publish(work_queue(queue), [envelope(job) for job in jobs])
                for job in jobs:
                    del unsent[job.id]
                    if holder == self.trial_id:
                        self.tried[job.id] = job
        finally:
            for job in unsent.values():
                await self.give_back(job)
        self.batch = min(CLAIM_MAX, batch * 2)
        return len(claimed.jobs), claimed.next_due_at


def by_queue(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.queue].append(job)
    return groups


def envelope(job: Job) -> Envelope:
    """The job as a worker in any language is told of it; a large payload is to be fetched."""
    call = work_call(job)
    headers = work_headers(job, job.lease_until)
    body = msgspec.json.encode(call)
    if len(body) > PAYLOAD_BYTES_SENT_MAX and isinstance(job.target, HandlerTarget):
        headers[FETCH_HEADER] = f"/api/jobs/{job.id}/start"
        body = msgspec.json.encode(call | {"params": {"attempt": job.attempt}})
    return Envelope(body=body, id=f"{job.id}.{job.token}", headers=headers, key=job.group)
