"""Clients of the fleet: they enqueue, cancel, pause and schedule, and remember the answers."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from onbeat.model.errors import Conflict, NotFound, OnbeatError, RequestInFlight, Unavailable
from onbeat.model.ids import JobId
from onbeat.operations import jobs, queues, schedules
from onbeat.operations.context import OperationContext
from onbeat.operations.idempotency import Repeatable, answer_once
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.clocks import EPOCH
from onbeat.testing.simulation.handlers import TASK, TICK
from onbeat.testing.simulation.journal import Accepted
from onbeat.testing.simulation.process import Incarnation
from onbeat.wire.jobs import EnqueueBody
from onbeat.wire.limits import LimitBody
from onbeat.wire.requests import (
    CancelJob,
    CreateSchedule,
    Enqueue,
    LimitQueue,
    PauseQueue,
    QueueByName,
    RetryJob,
    ScheduleById,
)
from onbeat.wire.schedules import ScheduleBody

Answer = TypeVar("Answer")

QUEUES: Final = ("default", "narrow")
NARROW: Final = "narrow"
TRIES_MAX: Final = 30
AGAIN_SECONDS: Final = 0.4


class SimulatedClient:
    """Sends the work of one process of callers. `until` is when it stops to."""

    def __init__(self, run: Incarnation, name: str, seed: str) -> None:
        self.run = run
        self.name = name
        self.loop = run.machine.loop
        self.options = run.machine.options
        self.journal = run.machine.journal
        self.chance = Chance(f"{seed} client {name}")
        self.known: list[str] = []

    @property
    def context(self) -> OperationContext:
        return self.run.context

    def note(self, what: str, about: str = "") -> None:
        self.journal.note(self.loop.at, self.name, what, about)

    async def work(self) -> None:
        """The whole work of this client, spread over the history."""
        options, chance = self.options, self.chance
        if options.limit:
            limits = LimitBody(concurrency=options.limit)
            await self.ask(lambda: queues.limit_queue(self.context, LimitQueue(NARROW, limits)))
        span = options.horizon * 0.8 / max(1, options.jobs)
        for number in range(options.jobs):
            await asyncio.sleep(span * chance.fraction() * 2)
            if chance.happens(0.2):
                await self.enqueue_twice(number)
            else:
                await self.enqueue(f"{self.name}-{number}", self.draw_body())
            if chance.happens(0.4):
                await self.meddle()

    async def enqueue_twice(self, number: int) -> None:
        """Two requests at once for the same unique key."""
        unique = f"key-{self.chance.below(3)}"
        bodies = [self.draw_body() | {"unique": unique} for _ in range(2)]
        keys = [f"{self.name}-{number}-{place}" for place in range(2)]
        await asyncio.gather(*map(self.enqueue, keys, bodies))

    async def enqueue(self, key: str, body: dict[str, Any]) -> None:
        sent = Accepted(key, body.get("unique"))
        self.journal.requests[key] = sent
        request = msgspec.json.decode(msgspec.json.encode(body), type=EnqueueBody)

        async def read(answer: bytes) -> Any:
            return msgspec.json.decode(answer)

        async def send() -> Any:
            once = Repeatable(
                "enqueue",
                msgspec.json.encode(body),
                lambda context: jobs.enqueue(context, Enqueue(request)),
                read,
            )
            return (await answer_once(self.context, key, once))[0]

        answer = await self.ask(send)
        if answer is not None:
            found: dict[str, Any] = msgspec.to_builtins(answer)
            sent.job, sent.created = found["id"], found.get("created", True)
            self.known.append(found["id"])
            self.note("accepted", f"{key} {found['id'][-12:]}")

    def draw_body(self) -> dict[str, Any]:
        chance = self.chance
        seconds = chance.spread(0.005, self.options.longest)
        body: dict[str, Any] = {
            "task": TASK,
            "kwargs": {"seconds": round(seconds, 3), "fails": int(chance.happens(1 / 3))},
            "queue": chance.one_of(QUEUES),
            "retry": {"delay": "200ms", "attempts_max": 6, "lost_max": 50},
        }
        if chance.happens(0.3):
            body["delay"] = round(chance.fraction() * 4, 3)
        if chance.happens(0.3):
            body["unique"] = f"key-{chance.below(3)}"
        if chance.happens(0.2) and self.known:
            body["after"] = [self.known[chance.below(len(self.known))]]
        if chance.happens(0.2):
            body["timeout"] = round(0.2 + chance.fraction() * 2, 3)
        return body

    async def meddle(self) -> None:
        """Something that an operator does."""
        draw = self.chance.fraction()
        if draw < 0.55:
            await self.cancel()
        elif draw < 0.75:
            await self.retry()
        else:
            await self.pause()

    async def cancel(self) -> None:
        if not self.known:
            return
        is_newest = self.chance.happens(0.6)  # a worker may claim it at this moment
        id = self.known[-1] if is_newest else self.chance.one_of(self.known)
        answer = await self.ask(lambda: jobs.cancel(self.context, CancelJob(id)))
        if answer is not None:
            stored = self.run.machine.server.store.tables.jobs.get(JobId(id))
            self.journal.cancelled[id] = self.loop.at, 0 if stored is None else stored.token
            self.note("cancelled", f"{id[-12:]} {answer.state}")

    async def retry(self) -> None:
        if not self.known:
            return
        id = self.chance.one_of(self.known)
        self.journal.retried.add(id)
        if await self.ask(lambda: jobs.retry(self.context, RetryJob(id))) is not None:
            self.journal.cancelled.pop(id, None)
            self.note("retried", id[-12:])

    async def pause(self) -> None:
        """Pause a queue for a while; it is resumed whatever happens to this process."""
        name = self.chance.one_of(QUEUES)
        answer = await self.ask(lambda: queues.pause_queue(self.context, PauseQueue(name)))
        since = self.loop.at
        await asyncio.sleep(self.chance.fraction() * 3)
        before = self.loop.at
        await self.ask(lambda: queues.resume_queue(self.context, QueueByName(name)), forever=True)
        if answer is not None:
            self.journal.pauses.append((name, since, before))

    async def ask(
        self, act: Callable[[], Awaitable[Answer]], *, forever: bool = False
    ) -> Answer | None:
        """Repeat a request until it is answered; None where it is refused, or given up."""
        for tried in range(TRIES_MAX * (100 if forever else 1)):
            try:
                await self.run.refresh_clock()
                return await act()
            except (Unavailable, RequestInFlight):
                await asyncio.sleep(AGAIN_SECONDS * (0.5 + self.chance.fraction()))
            except (Conflict, NotFound) as error:
                self.note("refused", type(error).__name__)
                return None
            except OnbeatError as error:
                if not self.options.keep:  # what it names may have been pruned
                    self.journal.violate("refused", f"{self.name}: {error!r} after {tried} tries")
                return None
        self.note("given up")
        return None


class Scheduler(SimulatedClient):
    """Makes schedules at the start, and edits one now and then."""

    async def work(self) -> None:
        ids = [await self.create(number) for number in range(self.options.schedules)]
        made = [id for id in ids if id is not None]
        while self.loop.at < self.options.horizon * 0.7 and made:
            await asyncio.sleep(self.options.horizon * self.chance.fraction())
            if self.chance.happens(0.5):
                await self.pause_schedule(self.chance.one_of(made))

    async def create(self, number: int) -> str | None:
        seconds = 1 + self.chance.below(4)
        start = EPOCH - timedelta(seconds=30)
        body: dict[str, Any] = {
            "name": f"schedule {number}",
            "every": f"R/{start:%Y-%m-%dT%H:%M:%SZ}/PT{seconds}S",
            "target": {"task": TICK, "kwargs": {"seconds": 0.05}},
            "retry": {"delay": "200ms", "attempts_max": 6, "lost_max": 50},
            "catch_up": "all",
            "grace": "1h",
            "key": f"{self.name}-{number}",
        }
        if self.chance.happens(0.3):
            body["overlap"] = "wait"
        request = CreateSchedule(msgspec.json.decode(msgspec.json.encode(body), type=ScheduleBody))
        answer = await self.ask(lambda: schedules.create(self.context, request))
        if answer is None:
            stored = self.run.machine.server.store.tables.schedule_keys.get(body["key"])
            self.note("schedule", f"{body['key']} {'is there' if stored else 'is not there'}")
            return None
        self.journal.schedules[answer.id] = seconds
        self.note("scheduled", f"every {seconds} s")
        return answer.id

    async def pause_schedule(self, id: str) -> None:
        self.journal.edited.add(id)
        if await self.ask(lambda: schedules.pause(self.context, ScheduleById(id))) is not None:
            self.note("pauses", id[-12:])
        await asyncio.sleep(self.chance.fraction() * 3)
        await self.ask(lambda: schedules.resume(self.context, ScheduleById(id)), forever=True)
