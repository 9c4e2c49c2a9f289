"""Receives job announcements from a broker for a worker that has access to the store.

A message is only a hint: the worker runs a job after the store has given it the lease. That happens
once, even if the message is delivered several times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from onbeat.engine.broker.consumer import ReconnectingConsumer
from onbeat.engine.loop import Wakeup, cancel_all
from onbeat.engine.worker import JobRunner
from onbeat.model.errors import Malformed
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Cancelled
from onbeat.ports.clock import Clock
from onbeat.ports.store import DispatcherStore, WorkerStore
from onbeat.ports.target import Lanes
from onbeat.ports.transport import Broker, Delivery, Envelope
from onbeat.wire.broker_messages import (
    HOPS_HEADER,
    Announced,
    announcement_of,
    read_announcement,
    run_queue,
)

WAIT: Final = 1.0  # seconds that one receive waits for a message
STARVED_MAX: Final = 0.1  # seconds without a free slot until prefetched jobs go back
PREFETCH_MAX: Final = 50
HOPS_MAX: Final = 16  # times that workers without the task may forward a job
HOPS_DIGITS_MAX: Final = 3

Lease = tuple[JobId, Token]
AddDeadLetter = Callable[[str, Delivery, str], Awaitable[None]]
"""Stores a dead letter: its queue, the message, and the reason."""


class JobConsumerStore(WorkerStore, DispatcherStore, Protocol):
    """The store operations that a consumer of jobs needs."""


class JobConsumer:
    """Consumes one queue. Each `step` receives once."""

    def __init__(
        self,
        store: JobConsumerStore,
        broker: Broker,
        clock: Clock,
        worker: JobRunner,
        id: WorkerId,
        lanes: Lanes,
        queue: str,
        add_dead_letter: AddDeadLetter,
    ) -> None:
        self.store = store
        self.broker = broker
        self.clock = clock
        self.worker = worker
        self.id = id
        self.lanes = lanes
        self.queue = queue
        self.source = run_queue(queue)
        self.add_dead_letter = add_dead_letter
        self.slot_free = Wakeup()
        self.starting = asyncio.Lock()
        self.consumer = ReconnectingConsumer(
            broker, self.source, min(PREFETCH_MAX, worker.concurrency)
        )
        self.pending: Sequence[Delivery] = ()
        self.jobs_per_message = 1

    async def step(self) -> float:
        """Receive announcements, as many as the worker has room for, and start their jobs."""
        if self.worker.is_draining:
            await self.close()
            return WAIT
        self.worker.return_surplus()
        if not await self.has_room():
            return 0.0
        # Jobs that could not be started because the store was unavailable are retried first.
        if not self.pending:
            limit = self.worker.capacity() // self.jobs_per_message
            self.pending = await self.consumer.receive(max(1, limit), WAIT)
        await self.start_announced()
        return 0.0

    async def has_room(self) -> bool:
        """Whether a slot is free now or soon.

        Without one the consumer is closed, so that prefetched messages go to other workers.
        """
        if self.worker.capacity() == 0:
            await self.slot_free.wait(STARVED_MAX)
        if self.worker.capacity() > 0:
            return True
        await self.close()
        await self.slot_free.wait(WAIT)
        return False

    async def start_announced(self) -> None:
        """Start the announced jobs, hand them to the worker, and acknowledge the messages."""
        # A message may be delivered twice, even in one batch; each lease is started once.
        announced: dict[Lease, Announced] = {}
        for delivery in self.pending:
            jobs = await self.read_jobs(delivery)
            self.jobs_per_message = max(1, len(jobs))
            announced |= {(one.id, one.token): one for one in jobs}
        known = self.worker.known_jobs()
        fresh = [lease for lease in announced if lease[0] not in known]
        # Slots may become free while jobs are being started.
        while fresh and (room := self.worker.capacity()) > 0:
            await self.start(fresh[:room])
            fresh = fresh[room:]
        if fresh:
            await self.hand_over([announced[lease] for lease in fresh])
        await self.consumer.acknowledge(self.pending)
        self.pending = ()

    async def start(self, leases: Sequence[Lease]) -> None:
        async with self.starting:
            await start_carried(self.store, self.worker, self.id, leases, self.clock)

    async def hand_over(self, jobs: Sequence[Announced]) -> None:
        """Publish again the jobs that this worker has no room for."""
        envelope = Envelope(
            body=announcement_of(jobs), id=f"{jobs[0].id}.{jobs[0].token}", fleeting=True
        )
        await self.broker.publish(self.source, [envelope])

    async def read_jobs(self, delivery: Delivery) -> Sequence[Announced]:
        """The jobs that this worker can run. A malformed message becomes a dead letter."""
        try:
            announced = read_announcement(delivery.body)
        except Malformed as error:
            await self.add_dead_letter(self.source, delivery, str(error))
            return ()
        lanes = self.lanes()
        foreign = [one for one in announced if one.task not in lanes]
        if foreign:
            await self.pass_on(delivery, foreign)
        return [one for one in announced if one.task in lanes]

    async def pass_on(self, delivery: Delivery, foreign: Sequence[Announced]) -> None:
        """Forward these jobs to another worker of the queue.

        After `HOPS_MAX` hops they are dropped; the carrier announces them again later.
        """
        hops = hops_of(delivery) + 1
        if hops <= HOPS_MAX:
            headers = delivery.headers | {HOPS_HEADER: str(hops)}
            envelope = Envelope(
                body=announcement_of(foreign), id=delivery.id, headers=headers, fleeting=True
            )
            await self.broker.publish(self.source, [envelope])

    async def close(self) -> None:
        """Return messages whose jobs were not started."""
        self.pending = ()
        await self.consumer.close()


def hops_of(delivery: Delivery) -> int:
    """How often the message was forwarded; an invalid header counts as the maximum."""
    headers = delivery.headers.get(HOPS_HEADER, "0")
    return int(headers) if headers.isdecimal() and len(headers) <= HOPS_DIGITS_MAX else HOPS_MAX


async def start_carried(
    store: WorkerStore, worker: JobRunner, id: WorkerId, leases: Sequence[Lease], clock: Clock
) -> None:
    """Start jobs that carriers hold, except those that this worker has already.

    The store gives a job once more to the worker that has it, as the first answer may be lost. One
    call at a time, so that what another one has started is known here.
    """
    async with worker.starting:
        known = worker.known_jobs()
        fresh = [lease for lease in leases if lease[0] not in known]
        if fresh:
            jobs = await store.start(id, fresh, clock.now())
            accept_started(worker, [job for job in jobs if job is not None])


def accept_started(worker: JobRunner, jobs: Sequence[Job]) -> None:
    """Run started jobs in the worker; jobs cancelled in the meantime are settled as cancelled."""
    worker.accept([job for job in jobs if job.cancel_reason is None])
    for job in jobs:
        if job.cancel_reason is not None:
            worker.spawn(worker.record(job, Cancelled(job.cancel_reason, unstarted=True)))


Keeping = asyncio.Task[None]


class QueueWatch(msgspec.Struct, frozen=True):
    """The queues that a worker serves: the configured ones, or all that are in use."""

    store: DispatcherStore
    queues: tuple[str, ...] | None

    async def served_queues(self) -> frozenset[str]:
        if self.queues is not None:
            return frozenset(self.queues)
        return frozenset(await self.store.queue_names()) | {"default"}


class JobConsumers:
    """One consumer for each served queue; a new queue is found within a second."""

    def __init__(
        self,
        watch: QueueWatch,
        make: Callable[[str], JobConsumer],
        keep: Callable[[JobConsumer], Keeping],
    ) -> None:
        self.watch = watch
        self.make_consumer = make
        self.start_loop = keep
        self.consumers: dict[str, tuple[JobConsumer, Keeping]] = {}

    async def step(self) -> float:
        for queue in sorted(await self.watch.served_queues() - self.consumers.keys()):
            receiver = self.make_consumer(queue)
            self.consumers[queue] = receiver, self.start_loop(receiver)
        return WAIT

    def wake(self) -> None:
        """Wake the consumers after a slot has become free."""
        for receiver, _ in self.consumers.values():
            receiver.slot_free.wake()

    async def stop(self) -> None:
        """Stop the consumers and return messages whose jobs were not started."""
        await asyncio.gather(*(stop_consumer(*consumer) for consumer in self.consumers.values()))
        self.consumers.clear()


async def stop_consumer(receiver: JobConsumer, task: Keeping) -> None:
    # An interrupted start could leave leases that this process does not know of.
    async with receiver.starting:
        await cancel_all([task])
    await receiver.close()
