"""Runs the parts of a process that send and receive jobs over a broker.

Each part depends on a role: the dispatcher role runs the carrier and the sender of remote jobs, the
worker role runs job consumers, and the maintenance role runs inbound consumers.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from onbeat.engine.broker.dispatcher import BrokerDispatcher
from onbeat.engine.broker.fallback import TROUBLED_PERIOD, BrokerWatch, Fallback
from onbeat.engine.broker.fleet import FleetView
from onbeat.engine.broker.inbound import InboundConsumer
from onbeat.engine.broker.job_consumer import JobConsumer, JobConsumers, QueueWatch
from onbeat.engine.broker.remote import RemoteSender
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.heartbeat import Heartbeat, HeartbeatThread, NoAttempts
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.loop import Rest, Step, Wakeup, cancel_all
from onbeat.engine.options import RuntimeOptions
from onbeat.engine.worker import JobRunner
from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.role import Role
from onbeat.model.worker import WorkerRecord, carrier_id
from onbeat.wire.broker_messages import EVENTS, RESULTS, SUBMIT

StartLoop = Callable[[str, Step, Wakeup], asyncio.Task[None]]


class BrokerRuntime:
    """Call `start`, later `stop_claiming` and `stop`, each in the same event loop."""

    def __init__(
        self,
        setup: BrokerSetup,
        dependencies: Dependencies,
        options: RuntimeOptions,
        start_loop: StartLoop,
        worker: JobRunner,
        dispatcher: Dispatcher,
    ) -> None:
        self.setup = setup
        self.dependencies = dependencies
        self.options = options
        self.start_plain_loop = start_loop
        self.worker = worker
        self.dispatcher = dispatcher
        store, clock, id = dependencies.store, dependencies.clock, dependencies.identity.id
        fleet = FleetView(store, clock)
        self.broker_watch = BrokerWatch(
            setup.broker, clock, dependencies.telemetry, self.on_broker_change
        )
        self.guard = LeaseGuard(clock, options.lease_seconds, self.on_jobs_due)
        self.dispatcher_loop = BrokerDispatcher(
            store, self.broker_watch, clock, fleet, carrier_id(id), options.queues, self.guard
        )
        self.fallback = Fallback(store, clock, self.broker_watch, worker, dispatcher)
        self.remote_sender = RemoteSender(
            store,
            setup.broker,
            clock,
            fleet,
            id,
            options.queues,
            setup.remote,
            setup.remote_lease,
            self.record,
            setup.fence,
            setup.decrypt,
            worker.start_check.judge_sent,
        )
        self.job_consumers = JobConsumers(
            QueueWatch(store, options.queues),
            self.job_consumer,
            lambda one: self.start_loop("receiver", self.while_available(one.step)),
        )
        self.inbound_consumers = (
            InboundConsumer(setup.broker, SUBMIT, setup.submit, setup.add_dead_letter),
            InboundConsumer(setup.broker, EVENTS, setup.events, setup.add_dead_letter),
            InboundConsumer(setup.broker, RESULTS, setup.results, setup.add_dead_letter),
        )
        self.claiming: list[asyncio.Task[None]] = []
        self.inbound_tasks: list[asyncio.Task[None]] = []
        self.heartbeat: HeartbeatThread | None = None
        self.wakeups: list[Wakeup] = []
        self.due_wakeups = self.wakeup(), self.wakeup()
        self.fallback_wakeup = self.wakeup()

    async def start(self) -> None:
        await self.setup.broker.open()
        roles = self.options.roles
        if Role.DISPATCHER in roles:
            await self.start_dispatching()
        if Role.WORKER in roles:
            self.start_working()
        if Role.MAINTENANCE in roles:
            self.inbound_tasks += [
                self.start_loop(
                    f"intake {inbound_consumer.queue}", self.while_available(inbound_consumer.step)
                )
                for inbound_consumer in self.inbound_consumers
            ]
        if roles & {Role.DISPATCHER, Role.WORKER, Role.MAINTENANCE}:
            self.inbound_tasks.append(
                self.start_plain_loop("broker", self.broker_watch.step, Wakeup())
            )
        self.inbound_tasks.append(self.start_loop("dead letters", self.setup.dead_letters.step))

    def start_loop(self, name: str, step: Step) -> asyncio.Task[None]:
        """A loop that also runs at once when the broker becomes usable or unusable."""
        return self.start_plain_loop(name, step, self.wakeup())

    def wakeup(self) -> Wakeup:
        wakeup = Wakeup()
        self.wakeups.append(wakeup)
        return wakeup

    def while_available(self, step: Step) -> Step:
        """The step, which rests while the broker is unavailable."""

        async def step_or_rest() -> float:
            if self.broker_watch.is_away:
                return Rest(TROUBLED_PERIOD)
            return self.delay_after(await step())

        return step_or_rest

    def delay_after(self, delay: float) -> float:
        """A `Rest` while the broker does not answer: a round that needed nothing proves nothing."""
        return Rest(delay) if self.broker_watch.failed_pings else delay

    def on_broker_change(self) -> None:
        """Update the carrier's row and wake all loops after a change of `BrokerWatch.is_usable`."""
        if self.heartbeat is not None:
            self.heartbeat.beat_now()
        self.fallback.reassess_soon()
        for wakeup in self.wakeups:
            wakeup.wake()

    async def start_dispatching(self) -> None:
        """Register before the first claim: a lease whose carrier has no row counts as abandoned."""
        store = self.dependencies.store
        heartbeat = Heartbeat(
            store, store, self.dependencies.clock, self.row, NoAttempts(), self.guard
        )
        await heartbeat.renew_leases()
        self.heartbeat = HeartbeatThread(
            heartbeat,
            self.options.heartbeat_period,
            self.dependencies.telemetry,
            self.dependencies.sidecar,
            self.dependencies.side_loop,
        )
        self.heartbeat.start()
        carry, send = self.due_wakeups
        self.claiming += [
            self.start_plain_loop("carrier", self.dispatch, carry),
            self.start_plain_loop(
                "remote sender", self.while_available(self.remote_sender.step), send
            ),
        ]

    async def dispatch(self) -> float:
        if self.broker_watch.is_usable:
            return self.delay_after(await self.dispatcher_loop.step())
        await self.dispatcher_loop.hand_over_all(self.dependencies.randomness.fraction())
        return Rest(TROUBLED_PERIOD)

    def start_working(self) -> None:
        self.claiming += [
            self.start_loop("receivers", self.job_consumers.step),
            self.start_plain_loop("fallback", self.fallback.step, self.fallback_wakeup),
        ]

    def on_slot_free(self) -> None:
        self.job_consumers.wake()
        if self.fallback.is_needed:
            self.fallback_wakeup.wake()

    def row(self) -> WorkerRecord:
        """The carrier's row: it runs nothing itself.

        While the carrier cannot announce, its row names no queues; workers read that.
        """
        queues = None if self.broker_watch.is_usable else ()
        return replace(
            self.dependencies.identity,
            id=self.dispatcher_loop.id,
            concurrency=0,
            lanes=(),
            queues=queues,
            lease_seconds=self.options.lease_seconds,
        )

    def job_consumer(self, queue: str) -> JobConsumer:
        dependencies = self.dependencies
        return JobConsumer(
            dependencies.store,
            self.setup.broker,
            dependencies.clock,
            self.worker,
            dependencies.identity.id,
            dependencies.lanes,
            queue,
            self.setup.add_dead_letter,
        )

    async def record(self, job: Job, outcome: Outcome) -> None:
        await self.worker.record(job, outcome)

    def on_jobs_due(self) -> None:
        """Wake the loops that claim. Thread-safe."""
        for wakeup in self.due_wakeups:
            wakeup.wake_threadsafe()
        if self.fallback.is_needed:
            self.fallback_wakeup.wake_threadsafe()

    async def stop_claiming(self) -> None:
        """Stop claiming and starting jobs; release the jobs that no worker has started."""
        # An interrupted claim could leave leases that this process does not know of.
        async with self.dispatcher.claiming, self.remote_sender.claiming:
            await cancel_all(self.claiming)
        await self.job_consumers.stop()
        if self.heartbeat is not None:
            await self.hand_back_all()
            await self.heartbeat.stop()

    async def hand_back_all(self) -> None:
        """Release all unstarted jobs. If the store is unavailable, a rescuer does so later."""
        try:
            await self.dispatcher_loop.hand_back(self.dependencies.randomness.fraction())
        except Unavailable as error:
            self.dependencies.telemetry.loop_failed("drain", error)

    async def stop(self) -> None:
        """End everything else, and close the broker."""
        await cancel_all(self.claiming + self.inbound_tasks)
        await self.job_consumers.stop()
        await asyncio.gather(*(intake.close() for intake in self.inbound_consumers))
        if self.heartbeat is not None:
            await self.heartbeat.stop()
        await self.broker_watch.stop()
        await self.setup.broker.close()

    @property
    def holder_id(self) -> WorkerId | None:
        """The carrier's id, if this process has a carrier."""
        return None if self.heartbeat is None else self.dispatcher_loop.id
