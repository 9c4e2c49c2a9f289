"""Watches for what somebody should be told about."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from onbeat.model.alert import AlertChange
from onbeat.model.limits import PRUNE_MAX
from onbeat.model.live import LiveEvent
from onbeat.ports.alerts import AlertStore
from onbeat.ports.clock import Clock
from onbeat.rules.alerts import ALERTS_MAX, alert_changes
from onbeat.rules.live_feed import LiveFeed
from onbeat.rules.verdict import Concern

ALERT_PERIOD: Final = 10.0
REST: Final = 50
"""A look rests for so many times as long as it took, so a store with many jobs is asked less."""

KEEP: Final = timedelta(days=30)

DONE: Final = {"seen": "begun", "announced": "raised", "ended": "resolved"}
"""What those who watch live are told."""

Look = Callable[[], Awaitable[Sequence[Concern]]]


class AlertWatch:
    """Any number of processes may watch; each alert begins, is told and ends once.

    The process that wrote it tells `live`.
    """

    def __init__(
        self, store: AlertStore, clock: Clock, look: Look, live: LiveFeed | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.look = look
        self.live = LiveFeed() if live is None else live

    async def step(self) -> float:
        begun = self.clock.monotonic()
        found = await self.look()
        now = self.clock.now()
        alerts = await self.store.alerts(is_open=True, limit=2 * ALERTS_MAX)
        changes = alert_changes(found, alerts, await self.store.silences(now), now)
        if changes:
            self.tell(await self.store.note_alerts(changes, now), now)
        await self.store.prune_alerts(now - KEEP, PRUNE_MAX)
        return max(ALERT_PERIOD, REST * (self.clock.monotonic() - begun))

    def tell(self, made: Sequence[AlertChange], now: datetime) -> None:
        for change in made:
            alert, done = change.alert, DONE[change.to]
            self.live.note(
                LiveEvent(kind="alert", id=alert.key, at=now, to=done, queue=alert.queue)
            )
