"""Verbs answer wrong arguments with `Invalid` and the argument's name, on a store and a service."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from onbeat import Invalid, Onbeat

LOCAL = datetime(2026, 12, 1, 9)  # noqa: DTZ001  without a zone, as is refused
AWARE = datetime(2026, 12, 1, 9, tzinfo=UTC)

Verb = Callable[[Onbeat], Awaitable[object]]

INSTANTS: dict[str, tuple[str, Verb]] = {
    "jobs.list since": ("since", lambda it: it.jobs.alist(since=LOCAL)),
    "jobs.list until": ("until", lambda it: it.jobs.alist(until=LOCAL)),
    "jobs.page": ("since", lambda it: it.jobs.apage(since=LOCAL)),
    "jobs.bulk": ("until", lambda it: it.jobs.abulk("cancel", dry_run=True, until=LOCAL)),
    "jobs.reschedule": ("run_at", lambda it: it.jobs.areschedule("id", run_at=LOCAL)),
    "audit.list since": ("since", lambda it: it.audit.alist(since=LOCAL)),
    "audit.list until": ("until", lambda it: it.audit.alist(until=LOCAL)),
    "failures.list": ("since", lambda it: it.failures.alist(since=LOCAL)),
    "alerts.silence until": ("until", lambda it: it.alerts.asilence("*", LOCAL)),
    "alerts.silence start": ("start", lambda it: it.alerts.asilence("*", AWARE, start=LOCAL)),
    "forecast": ("since", lambda it: it.aforecast(LOCAL)),
    "timeline": ("day", lambda it: it.atimeline(day=LOCAL)),
    "schedules.occurrences": ("since", lambda it: it.schedules.aoccurrences("k", since=LOCAL)),
    "schedules.backfill": ("since", lambda it: it.schedules.abackfill("k", LOCAL, AWARE)),
    "events.publish": ("time", lambda it: it.events.apublish("order.placed", time=LOCAL)),
}


@pytest.fixture(params=["store", "service"])
async def beat(request: pytest.FixtureRequest, service: str) -> Any:
    one = Onbeat("memory://") if request.param == "store" else Onbeat(service)
    yield one
    await one.aclose()
    one.backend.portal.close()


async def test_an_instant_needs_a_zone(beat: Onbeat) -> None:
    for name, (field, verb) in INSTANTS.items():
        with pytest.raises(Invalid) as caught:
            await verb(beat)
        assert caught.value.field == field, name
