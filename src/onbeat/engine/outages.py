"""Writes events about endpoints that seem to be down."""

from typing import Final

from onbeat.engine.loop import Wakeup
from onbeat.model.event import OWN_SOURCE
from onbeat.ports.clock import Clock
from onbeat.ports.events import EventStore
from onbeat.rules.outages import TYPE, Outage, id_before, is_same, outage_event

OUTAGE_PERIOD: Final = 20.0  # seconds; a report wakes the loop at once


class OutageReporter:
    """Takes reports of attempts, which never wait for it, and writes them in a loop of its own.

    An endpoint waits at most once, so no more wait than there are circuit breakers. A write that
    fails is repeated by the loop; what waits when the process ends is lost.
    """

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.wakeup = Wakeup()
        self.waiting: dict[str, Outage] = {}

    def report(self, outage: Outage) -> None:
        """Must be called in the event loop of the attempts."""
        self.waiting[outage.endpoint] = outage
        self.wakeup.wake()

    async def step(self) -> float:
        for endpoint, outage in tuple(self.waiting.items()):
            await self.write(outage)
            if self.waiting.get(endpoint) is outage:
                del self.waiting[endpoint]
        return OUTAGE_PERIOD

    async def write(self, outage: Outage) -> None:
        """Write the event, if a schedule asks for it and no other process has written it."""
        if TYPE not in await self.store.wanted_types():
            return
        before = await self.store.events_by_id(id_before(outage), OWN_SOURCE)
        if not any(is_same(outage, one.event) for one in before):
            await self.store.publish([outage_event(outage)], self.clock.now())
