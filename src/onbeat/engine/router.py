"""Turns events into jobs of the schedules that react to them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from onbeat.model.event import StoredEvent
from onbeat.model.event_wait import FreedWait
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import ROUTE_FREED_MAX, ROUTE_MATCHES_MAX, ROUTE_MAX
from onbeat.model.route import Routing, Unrouted
from onbeat.model.schedule import Schedule
from onbeat.ports.clock import Clock
from onbeat.ports.events import RouterStore
from onbeat.ports.expressions import Expressions, Fault, ValueKind
from onbeat.ports.randomness import Randomness
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.event_patterns import (
    NAMES,
    Evaluate,
    Facts,
    MatchedEvent,
    NoValue,
    Reaction,
    ReactionIndex,
    match_events,
)
from onbeat.rules.event_waits import freed_waits, key_of, with_freed
from onbeat.rules.plans import Compile
from onbeat.rules.reactions import Compilers, compile_reaction, uncompiled_reaction
from onbeat.rules.routes import keys_of, route

ROUTE_PERIOD: Final = 1.0
"""Seconds until a round looks for events of which no hint came."""

REFUSED_PAUSE: Final = 0.02
"""Seconds within which a refused decision is made again, at random: so two routers part."""

INLINE_MAX: Final = 20
"""Events that are judged on the event loop; more of them may take long."""


class Router:
    """Any number of routers may run. Each decides on what it read, and a store refuses a decision
    that is out of date.
    """

    def __init__(
        self,
        store: RouterStore,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
        expressions: Expressions,
        compile: Compile,
    ) -> None:
        self.store = store
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.compile = compile
        self.compilers = Compilers(
            condition=partial(compiled, expressions, ValueKind.TRUTH),
            key=partial(compiled, expressions, ValueKind.TEXT),
        )
        self.reactions: dict[ScheduleId, Reaction] = {}
        self.index = ReactionIndex(())
        self.batch_max = ROUTE_MAX
        self.refused = 0

    async def step(self) -> float:
        """One round; the next follows at once while there are events."""
        refused = self.refused
        if await self.route_next() == 0:
            return ROUTE_PERIOD
        return 0.0 if self.refused == refused else REFUSED_PAUSE * self.randomness.fraction()

    async def route_next(self) -> int:
        """Decide on the next events. Returns how many there were, also if the store refused."""
        unrouted = await self.store.unrouted_events(self.batch_max)
        if not unrouted.events:
            return 0
        await self.read_schedules()
        routing = await self.decide(unrouted)
        if await self.store.route(routing):
            self.batch_max = min(ROUTE_MAX, self.batch_max * 2)
            self.telemetry.made(routing.jobs)
            self.telemetry.routed(events=len(routing.verdicts), jobs=len(routing.jobs))
        else:
            # Something changed between reading and writing, which is rarer for fewer events.
            self.batch_max = max(1, self.batch_max // 2)
            self.refused += 1
            self.telemetry.route_refused(len(routing.verdicts))
        return len(unrouted.events)

    async def read_schedules(self) -> None:
        """Bring the schedules with `on` up to date."""
        known = {id: reaction.schedule.version for id, reaction in self.reactions.items()}
        current = await self.store.event_schedules(known)
        if not current.changed and current.versions.keys() == known.keys():
            return
        kept = {id: it for id, it in self.reactions.items() if id in current.versions}
        changed = {schedule.id: self.reaction_of(schedule) for schedule in current.changed}
        self.reactions = kept | changed
        self.index = ReactionIndex(self.reactions.values())

    def reaction_of(self, schedule: Schedule) -> Reaction:
        """One that cannot be compiled here says so of each event, and keeps no other from it."""
        try:
            return compile_reaction(schedule, self.compilers)
        except Exception as error:  # noqa: BLE001  whatever is wrong with it, others go on
            return uncompiled_reaction(schedule, f"cannot be judged here: {error}")

    async def decide(self, unrouted: Unrouted) -> Routing:
        now = self.clock.now()
        events = await self.match(unrouted, now)
        freed, is_all = await self.find_freed([one.stored for one in events])
        if not is_all:
            return Routing(verdicts={}, at=now, freed=freed)
        keys = keys_of(events)
        keyed = await self.store.keyed_jobs(keys) if keys else ()
        return with_freed(route(events, keyed, unrouted.made, now, self.compile), freed)

    async def find_freed(self, events: Sequence[StoredEvent]) -> tuple[tuple[FreedWait, ...], bool]:
        """The waits that these events end, and whether there are no more of them.

        The waits are read after the events. So a wait that was stored before an event was
        published is among them.
        """
        keys = {key_of(one.event) for one in events}
        waits = await self.store.open_waits(keys, ROUTE_FREED_MAX)
        return freed_waits(events, waits), len(waits) < ROUTE_FREED_MAX

    async def match(self, unrouted: Unrouted, now: datetime) -> Sequence[MatchedEvent]:
        """Expressions may take long, so those of many events run in a thread."""
        work = partial(
            match_events, unrouted.events, unrouted.made, self.index, now, ROUTE_MATCHES_MAX
        )
        return await asyncio.to_thread(work) if len(unrouted.events) > INLINE_MAX else work()


def compiled(expressions: Expressions, kind: ValueKind, text: str, field: str) -> Evaluate:
    """The expression of a schedule, whose faults are raised."""
    expression = expressions.compile(text, NAMES, field, kind)

    def evaluate(facts: Facts) -> object:
        value = expression(facts)
        if isinstance(value, Fault):
            raise NoValue(value.text)
        return value

    return evaluate
