"""Takes announced jobs from a broker to a worker that has the store at hand.

What a message says is a hint: the worker runs a job only after the store has given it the lease,
which happens once, however often the message comes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from onbeat.engine.keeper import Alarm
from onbeat.engine.lasting import LastingInbox
from onbeat.engine.worker import Worker
from onbeat.model.errors import Malformed
from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Cancelled
from onbeat.ports.clock import Clock
from onbeat.ports.store import DispatcherStore, WorkerStore
from onbeat.ports.target import Lanes
from onbeat.ports.transport import Broker, Delivery, Envelope
from onbeat.wire.work import HOPS_HEADER, Announced, announcement_of, read_announcement, run_queue

WAIT: Final = 1.0  # seconds that one look into a queue waits for a message
STARVED_MAX: Final = 0.1  # seconds without a free slot after which others may have what waits here
PREFETCH_MAX: Final = 50
HOPS_MAX: Final = 16  # times that a job is passed on by workers that do not know its task
HOPS_DIGITS_MAX: Final = 3

Lease = tuple[JobId, Token]
Bury = Callable[[str, Delivery, str], Awaitable[None]]
"""Puts a message aside: where it came in, the message, and why."""


class ReceiverStore(WorkerStore, DispatcherStore, Protocol):
    """What a receiver asks of the store."""


class Receiver:
    """Serves one queue. `step` is one look into it."""

    def __init__(
        self,
        store: ReceiverStore,
        broker: Broker,
        clock: Clock,
        worker: Worker,
        id: WorkerId,
        lanes: Lanes,
        queue: str,
        bury: Bury,
    ) -> None:
        self.store = store
        self.broker = broker
        self.clock = clock
        self.worker = worker
        self.id = id
        self.lanes = lanes
        self.queue = queue
        self.source = run_queue(queue)
        self.bury = bury
        self.freed = Alarm()
        self.starting = asyncio.Lock()
        self.inbox = LastingInbox(broker, self.source, min(PREFETCH_MAX, worker.concurrency))
        self.pending: Sequence[Delivery] = ()
        self.jobs_per_message = 1

    async def step(self) -> float:
        """Take what is there, as far as the worker has room for it."""
        if self.worker.is_draining:
            await self.leave()
            return WAIT
        if not await self.has_room():
            return 0.0
        # What could not be started, since the store was away, is tried again before more is taken.
        if not self.pending:
            limit = self.worker.capacity() // self.jobs_per_message
            self.pending = await self.inbox.receive(max(1, limit), WAIT)
        await self.begin()
        return 0.0

    async def has_room(self) -> bool:
        """Whether a slot is free, or becomes so soon.

        A worker without one leaves its inbox for others: what it holds there would wait for it.
        """
        if self.worker.capacity() == 0:
            await self.freed.wait(STARVED_MAX)
        if self.worker.capacity() > 0:
            return True
        await self.leave()
        await self.freed.wait(WAIT)
        return False

    async def begin(self) -> None:
        """Start what has been announced, hand it to the worker, and be done with the messages."""
        # A message may have come twice, even within one look; each lease is asked for once.
        told: dict[Lease, Announced] = {}
        for delivery in self.pending:
            found = await self.understood(delivery)
            self.jobs_per_message = max(1, len(found))
            told |= {(one.id, one.token): one for one in found}
        known = self.worker.known()
        fresh = [lease for lease in told if lease[0] not in known]
        # While some are being started, slots become free for more.
        while fresh and (room := self.worker.capacity()) > 0:
            await self.start(fresh[:room])
            fresh = fresh[room:]
        if fresh:
            await self.leave_to_others([told[lease] for lease in fresh])
        await self.inbox.acknowledge(self.pending)
        self.pending = ()

    async def start(self, leases: Sequence[Lease]) -> None:
        async with self.starting:
            jobs = await self.store.start(self.id, leases, self.clock.now())
            take_on(self.worker, [job for job in jobs if job is not None])

    async def leave_to_others(self, jobs: Sequence[Announced]) -> None:
        """What came in one message with others is more than there is room for here."""
        envelope = Envelope(
            body=announcement_of(jobs), id=f"{jobs[0].id}.{jobs[0].token}", fleeting=True
        )
        await self.broker.publish(self.source, [envelope])

    async def understood(self, delivery: Delivery) -> Sequence[Announced]:
        """The jobs of a message that this worker can run. What it cannot read is put aside."""
        try:
            told = read_announcement(delivery.body)
        except Malformed as error:
            await self.bury(self.source, delivery, str(error))
            return ()
        lanes = self.lanes()
        foreign = [one for one in told if one.task not in lanes]
        if foreign:
            await self.pass_on(delivery, foreign)
        return [one for one in told if one.task in lanes]

    async def pass_on(self, delivery: Delivery, foreign: Sequence[Announced]) -> None:
        """Let another worker of the queue have these. Round and round it does not go: after some
        hops the carrier waits, and announces them again.
        """
        hops = hops_of(delivery) + 1
        if hops <= HOPS_MAX:
            headers = delivery.headers | {HOPS_HEADER: str(hops)}
            envelope = Envelope(
                body=announcement_of(foreign), id=delivery.id, headers=headers, fleeting=True
            )
            await self.broker.publish(self.source, [envelope])

    async def leave(self) -> None:
        """Give back what was taken and not begun."""
        self.pending = ()
        await self.inbox.leave()


def hops_of(delivery: Delivery) -> int:
    """How often it was passed on; what is no such number is as good as too often."""
    said = delivery.headers.get(HOPS_HEADER, "0")
    return int(said) if said.isdecimal() and len(said) <= HOPS_DIGITS_MAX else HOPS_MAX


def take_on(worker: Worker, jobs: Sequence[Job]) -> None:
    """Have the worker run what it has started; what was cancelled on its way ends so."""
    worker.accept([job for job in jobs if job.cancel_reason is None])
    for job in jobs:
        if job.cancel_reason is not None:
            worker.later(worker.record(job, Cancelled(job.cancel_reason), timedelta()))


Keeping = asyncio.Task[None]


class QueueWatch(msgspec.Struct, frozen=True):
    """Which queues a worker serves: those it was told, or all that are in use."""

    store: DispatcherStore
    queues: tuple[str, ...] | None

    async def served(self) -> frozenset[str]:
        if self.queues is not None:
            return frozenset(self.queues)
        return frozenset(await self.store.queue_names()) | {"default"}


class Receivers:
    """One receiver for each queue that is served; a new queue is found within a second."""

    def __init__(
        self,
        watch: QueueWatch,
        make: Callable[[str], Receiver],
        keep: Callable[[Receiver], Keeping],
    ) -> None:
        self.watch = watch
        self.make = make
        self.keep = keep
        self.receivers: dict[str, tuple[Receiver, Keeping]] = {}

    async def step(self) -> float:
        for queue in await self.watch.served() - self.receivers.keys():
            receiver = self.make(queue)
            self.receivers[queue] = receiver, self.keep(receiver)
        return WAIT

    def ring(self) -> None:
        """A slot has become free."""
        for receiver, _ in self.receivers.values():
            receiver.freed.ring()

    async def stop(self) -> None:
        """Give back everything that was not begun."""
        await asyncio.gather(*(ended(*one) for one in self.receivers.values()))
        self.receivers.clear()


async def ended(receiver: Receiver, task: Keeping) -> None:
    # A start cut off half-way would leave leases that nobody here knows of.
    async with receiver.starting:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await receiver.leave()
