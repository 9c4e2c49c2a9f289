"""What a process does whose jobs go from dispatcher to worker over a broker.

Any of its parts may be elsewhere: carriers and senders of remote work with the dispatcher's role,
receivers with the worker's, intakes with the supervisor's.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from onbeat.engine.carrier import Carrier
from onbeat.engine.crew import Crew
from onbeat.engine.dead import DeadPost
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.fallback import TROUBLED_PERIOD, BrokerWatch, Fallback
from onbeat.engine.intake import Answer, Intake
from onbeat.engine.keeper import Alarm, Step
from onbeat.engine.receiver import Bury, QueueWatch, Receiver, Receivers
from onbeat.engine.remote import RemoteSender, RemoteTasks
from onbeat.engine.renewer import Renewer, RenewerThread
from onbeat.engine.worker import Worker
from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Released
from onbeat.model.role import Role
from onbeat.model.worker import Worker as WorkerRow
from onbeat.model.worker import carrier_id
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.target import Lanes
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Broker
from onbeat.wire.work import RESULTS, SUBMIT

Keep = Callable[[str, Step, Alarm], asyncio.Task[None]]


class Brokerage(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, and what is done with what comes over it.

    `remote` names the tasks that are run in other languages; their leases last `remote_lease`.
    """

    broker: Broker
    remote: RemoteTasks
    remote_lease: timedelta
    submit: Answer
    results: Answer
    bury: Bury
    dead: DeadPost


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts are given of the process that they run in."""

    store: Store
    clock: Clock
    chance: Chance
    telemetry: Telemetry
    lanes: Lanes
    identity: WorkerRow
    roles: frozenset[Role]
    queues: tuple[str, ...] | None
    beat_period: float
    keep: Keep


class Brokered:
    """`start`, and later `stop_claiming` and `stop`, each in the same event loop."""

    def __init__(
        self, brokerage: Brokerage, around: Surroundings, worker: Worker, dispatcher: Dispatcher
    ) -> None:
        self.brokerage = brokerage
        self.around = around
        self.worker = worker
        self.dispatcher = dispatcher
        crew = Crew(around.store, around.clock)
        id = around.identity.id
        self.watch = BrokerWatch(brokerage.broker, around.clock, around.telemetry)
        self.carrier = Carrier(
            around.store, self.watch, around.clock, crew, carrier_id(id), around.queues
        )
        self.fallback = Fallback(around.store, around.clock, self.watch, worker, dispatcher)
        self.sender = RemoteSender(
            around.store,
            brokerage.broker,
            around.clock,
            crew,
            id,
            around.queues,
            brokerage.remote,
            brokerage.remote_lease,
            self.give_back,
        )
        self.receivers = Receivers(
            QueueWatch(around.store, around.queues),
            self.receiver,
            lambda one: self.kept("receiver", self.while_there(one.step)),
        )
        self.intakes = (
            Intake(brokerage.broker, SUBMIT, brokerage.submit, brokerage.bury),
            Intake(brokerage.broker, RESULTS, brokerage.results, brokerage.bury),
        )
        self.claiming: list[asyncio.Task[None]] = []
        self.taking_in: list[asyncio.Task[None]] = []
        self.beats: RenewerThread | None = None
        self.alarms: list[Alarm] = []
        self.due_alarms: list[Alarm] = []

    async def start(self) -> None:
        await self.brokerage.broker.open()
        self.watch.turned = self.broker_turned
        roles = self.around.roles
        if Role.DISPATCHER in roles:
            await self.start_carrying()
        if Role.WORKER in roles:
            self.start_working()
        if Role.SUPERVISOR in roles:
            self.taking_in += [
                self.kept(f"intake {one.queue}", self.while_there(one.step)) for one in self.intakes
            ]
        if roles & {Role.DISPATCHER, Role.WORKER, Role.SUPERVISOR}:
            self.taking_in.append(self.around.keep("broker", self.watch.step, Alarm()))
        self.taking_in.append(self.kept("dead letters", self.brokerage.dead.step))

    def kept(self, name: str, step: Step) -> asyncio.Task[None]:
        """A loop that looks again at once when the broker turns."""
        return self.around.keep(name, step, self.alarm())

    def alarm(self) -> Alarm:
        alarm = Alarm()
        self.alarms.append(alarm)
        return alarm

    def while_there(self, step: Step) -> Step:
        """The step, which rests while the broker is away."""

        async def rested() -> float:
            return TROUBLED_PERIOD if self.watch.is_away else await step()

        return rested

    def broker_turned(self) -> None:
        """It became usable or ceased to be: the carrier's row shall say so, and all look again."""
        if self.beats is not None:
            self.beats.beat_soon()
        self.fallback.look_soon()
        for alarm in self.alarms:
            alarm.ring()

    async def start_carrying(self) -> None:
        """Register before the first claim: a lease whose carrier has no row counts as abandoned."""
        renewer = Renewer(
            self.around.store, self.around.store, self.around.clock, self.row, self.carrier
        )
        await renewer.renew_held()
        self.beats = RenewerThread(renewer, self.around.beat_period, self.around.telemetry)
        self.beats.start()
        carry, send = self.due_alarms = [self.alarm(), self.alarm()]
        self.claiming += [
            self.around.keep("carrier", self.carry, carry),
            self.around.keep("remote sender", self.while_there(self.sender.step), send),
        ]

    async def carry(self) -> float:
        if self.watch.is_usable:
            return await self.carrier.step()
        await self.carrier.retreat(self.around.chance.fraction())
        return TROUBLED_PERIOD

    def start_working(self) -> None:
        self.worker.freed = self.slot_freed
        self.fallback_alarm = self.alarm()
        self.claiming += [
            self.kept("receivers", self.receivers.step),
            self.around.keep("fallback", self.fallback.step, self.fallback_alarm),
        ]

    def slot_freed(self) -> None:
        self.receivers.ring()
        if self.fallback.is_needed:
            self.fallback_alarm.ring()

    def row(self) -> WorkerRow:
        """The carrier as others see it: it can run nothing itself.

        While it cannot announce, it serves no queues; workers read that.
        """
        queues = None if self.watch.is_usable else ()
        return replace(
            self.around.identity, id=self.carrier.id, concurrency=0, lanes=(), queues=queues
        )

    def receiver(self, queue: str) -> Receiver:
        around = self.around
        return Receiver(
            around.store,
            self.brokerage.broker,
            around.clock,
            self.worker,
            around.identity.id,
            around.lanes,
            queue,
            self.brokerage.bury,
        )

    async def give_back(self, job: Job) -> None:
        await self.worker.record(job, Released(), timedelta())

    def jobs_may_be_due(self) -> None:
        """From any thread."""
        for alarm in self.due_alarms:
            alarm.ring_from_anywhere()
        if self.fallback.is_needed:
            self.fallback_alarm.ring_from_anywhere()

    async def stop_claiming(self) -> None:
        """Claim and begin nothing more; what no worker has started others may have at once."""
        # A claim cut off half-way would leave leases that nobody here knows of.
        async with self.dispatcher.claiming, self.sender.claiming:
            await cancelled(self.claiming)
        await self.receivers.stop()
        if self.beats is not None:
            await self.give_all_back()
            await self.beats.stop()

    async def give_all_back(self) -> None:
        """Where the store is away, whoever rescues gives these back."""
        try:
            await self.carrier.give_back(self.around.chance.fraction())
        except Unavailable as error:
            self.around.telemetry.loop_failed("drain", error)

    async def stop(self) -> None:
        """End everything else, and part from the broker."""
        await cancelled(self.claiming + self.taking_in)
        await self.receivers.stop()
        await asyncio.gather(*(intake.leave() for intake in self.intakes))
        if self.beats is not None:
            await self.beats.stop()
        await self.watch.stop()
        await self.brokerage.broker.close()

    @property
    def holder(self) -> WorkerId | None:
        """The carrier's id, where this process has one."""
        return None if self.beats is None else self.carrier.id


async def cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
