"""Sends jobs to remote workers, which may be written in any language and only use the protocol.

Such a job is claimed when it is sent, and carried from then on. Its lease is timed: it runs out
unless the worker renews it over HTTP, which also shows that it has begun, or its result arrives in
time. A call that runs out before that is no evidence: maybe no worker was there to take it.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.engine.broker.dispatcher import BrokerDispatcherStore
from onbeat.engine.broker.fleet import FleetView
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX, seconds_until
from onbeat.model.errors import Undecryptable
from onbeat.model.event import Event
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.outcome import Outcome, Released
from onbeat.model.target import HandlerTarget, lane_of
from onbeat.model.worker import calls_id, carrier_id
from onbeat.ports.clock import Clock
from onbeat.ports.store import ClaimRequest
from onbeat.ports.target import CheckStart, Lanes, allow_start
from onbeat.ports.transport import Broker, Envelope
from onbeat.rules.calls_in_flight import IN_FLIGHT_MAX, CallsInFlight
from onbeat.rules.encryption import put_off
from onbeat.rules.event_delivery import GONE, reads_events
from onbeat.rules.fence import Fence
from onbeat.wire.broker_messages import FETCH_HEADER, work_call, work_headers, work_queue

LOOK_PERIOD: Final = 0.05  # seconds between looks for answers while no more may be sent
QUIET_SHARE: Final = 1 / 8  # of the time since the last call or answer: then looks are rarer
PAYLOAD_BYTES_SENT_MAX: Final = 131_072  # larger ones are fetched: some brokers accept no more
FLEET_GRACE: Final = 5.0  # seconds for workers of this program to register

LoadFence = Callable[[], Awaitable[Fence]]
"""Loads the fence that seals tokens; may read its secret from the store."""

Record = Callable[[Job, Outcome], Awaitable[None]]
"""Stores the outcome of a job that was claimed but not sent."""

Decrypt = Callable[[Job], Job]
"""Decrypts a job. Raises `Undecryptable`."""


class RemoteTasks(msgspec.Struct, frozen=True):
    """Which tasks run on remote workers.

    `declared` tasks come from the settings. A task that this program has, but no worker with access
    to the store has ever served, is presumed remote as well: its jobs are sent on trial.
    """

    declared: frozenset[str]
    known_here: Lanes

    def tasks_on_trial(self, fleet: FleetView) -> frozenset[str]:
        if fleet.age < FLEET_GRACE:
            return frozenset()
        here = frozenset(lane for lane in self.known_here() if not lane.startswith("@"))
        return here - fleet.ever_seen - self.declared


class RemoteSender:
    """Claims and sends jobs, of each task as many as its workers answer in time.

    Jobs on trial are held apart, since they are called back once a worker of the fleet serves them.
    """

    def __init__(
        self,
        store: BrokerDispatcherStore,
        broker: Broker,
        clock: Clock,
        fleet: FleetView,
        id: str,
        queues: tuple[str, ...] | None,
        tasks: RemoteTasks,
        lease: timedelta,
        record: Record,
        load_fence: LoadFence,
        decrypt: Decrypt,
        check_start: CheckStart = allow_start,
    ) -> None:
        self.store = store
        self.broker = broker
        self.clock = clock
        self.fleet = fleet
        self.id = calls_id(id)
        self.trial_id = carrier_id(f"trial:{id}")
        self.queues = queues
        self.tasks = tasks
        self.lease = lease
        self.record = record
        self.load_fence = load_fence
        self.decrypt = decrypt
        self.check_start = check_start
        self.jobs_on_trial: dict[JobId, Job] = {}
        self.calls: dict[str, CallsInFlight] = defaultdict(CallsInFlight)
        self.moved_at = -math.inf  # when a call was last sent or answered
        self.batch = CLAIM_MAX
        self.claiming = asyncio.Lock()

    async def step(self) -> float:
        """One round; returns the seconds until the next one is useful."""
        await self.fleet.refresh()
        await self.recall_known()
        delays = [
            await self.send_for(self.id, self.tasks.declared),
            await self.send_for(self.trial_id, self.tasks.tasks_on_trial(self.fleet)),
        ]
        return min(delays)

    @property
    def look_period(self) -> float:
        """Seconds until answers are looked for again; longer, the longer there was none."""
        quiet = self.clock.monotonic() - self.moved_at
        return min(LOOK_AGAIN_MAX, max(LOOK_PERIOD, QUIET_SHARE * quiet))

    async def recall_known(self) -> None:
        """Release jobs on trial whose task a worker of the fleet now serves."""
        known = [
            job for job in self.jobs_on_trial.values() if lane_of(job.target) in self.fleet.lanes
        ]
        for job in known:
            await self.record(job, Released())
            del self.jobs_on_trial[job.id]

    async def send_for(self, holder: WorkerId, lanes: frozenset[str]) -> float:
        if not lanes:
            return LOOK_AGAIN_MAX
        held = await self.store.held_leases(holder)
        if holder == self.trial_id:
            self.forget_untried({lease.job_id for lease in held})
        leases, now = {(lease.job_id, lease.token) for lease in held}, self.clock.now()
        moved = sum(self.calls[lane].note_held(leases, now) for lane in lanes)
        free = frozenset(lane for lane in lanes if self.calls[lane].room > 0)
        # One claim for all tasks keeps the order of priorities. No task gets more than its room.
        room = min((self.calls[lane].room for lane in free), default=0)
        room = min(room, IN_FLIGHT_MAX - len(held))
        count, next_due_at = (0, None) if room <= 0 else await self.send_due(holder, free, room)
        if moved or count:
            self.moved_at = self.clock.monotonic()
        if count > 0:
            return 0.0
        rest = LOOK_AGAIN_MAX if free == lanes and room > 0 else self.look_period
        return seconds_until(next_due_at, self.clock, rest)

    def forget_untried(self, held: Iterable[JobId]) -> None:
        self.jobs_on_trial = {id: self.jobs_on_trial[id] for id in held if id in self.jobs_on_trial}

    async def send_due(
        self, holder: WorkerId, lanes: frozenset[str], room: int
    ) -> tuple[int, datetime | None]:
        """Claim and send. A job that cannot be sent is released at once and costs no attempt."""
        await self.broker.ping()
        fence = await self.load_fence()
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
        # After a failure the next batch has one job; its size doubles with every success.
        batch, self.batch = self.batch, 1
        readable = await self.decrypt_or_postpone(claimed.jobs)
        events = await self.read_events(readable)
        readable = [job for job in readable if job.id not in events or events[job.id]]
        readable = await self.allowed(readable, events)
        unsent = {job.id: job for job in readable}
        try:
            for queue, jobs in by_queue(readable).items():
                await self.broker.publish(
                    work_queue(queue),
                    [envelope(job, fence, events.get(job.id, ())) for job in jobs],
                )
                for job in jobs:
                    del unsent[job.id]
                    self.note_sent(job, request.now)
                    if holder == self.trial_id:
                        self.jobs_on_trial[job.id] = job
        finally:
            for job in unsent.values():
                await self.record(job, Released())
        self.batch = min(CLAIM_MAX, batch * 2)
        return len(claimed.jobs), claimed.next_due_at

    def note_sent(self, job: Job, now: datetime) -> None:
        self.calls[lane_of(job.target)].note_sent((job.id, job.token), now, now + self.lease)

    async def allowed(
        self, jobs: Sequence[Job], events: Mapping[JobId, Sequence[Event]]
    ) -> list[Job]:
        """The jobs whose condition holds and whose window is open; others end their attempt."""
        checks = (self.check_start(job, events.get(job.id, ())) for job in jobs)
        verdicts = await asyncio.gather(*checks)
        for job, verdict in zip(jobs, verdicts, strict=True):
            if verdict is not None:
                await self.record(job, verdict)
        return [job for job, verdict in zip(jobs, verdicts, strict=True) if verdict is None]

    async def decrypt_or_postpone(self, jobs: Sequence[Job]) -> list[Job]:
        """The decrypted jobs; jobs that cannot be decrypted here are postponed."""
        readable: list[Job] = []
        for job in jobs:
            try:
                readable.append(self.decrypt(job))
            except Undecryptable as error:
                await self.record(job, put_off(error))
        return readable

    async def read_events(self, jobs: Sequence[Job]) -> dict[JobId, Sequence[Event]]:
        """The events of the jobs that read some; a job whose events are gone has failed."""
        events: dict[JobId, Sequence[Event]] = {}
        for job in jobs:
            if reads_events(job):
                stored = await self.store.events_of_job(job.id)
                events[job.id] = [one.event for one in stored]
                if not stored:
                    await self.record(job, GONE)
        return events


def by_queue(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.queue].append(job)
    return groups


def envelope(job: Job, fence: Fence, events: Sequence[Event] = ()) -> Envelope:
    """The message for a remote worker; a large payload is to be fetched over HTTP."""
    call = work_call(job, events)
    headers = work_headers(job, fence.seal(job.id, job.token), job.lease_until)
    body = msgspec.json.encode(call)
    if len(body) > PAYLOAD_BYTES_SENT_MAX and isinstance(job.target, HandlerTarget):
        headers[FETCH_HEADER] = f"/api/jobs/{job.id}/start"
        body = msgspec.json.encode(call | {"params": {"attempt": job.attempt}})
    return Envelope(body=body, id=f"{job.id}.{job.token}", headers=headers, key=job.group)
