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

HELD = "01900000-0000-7000-8000-00000000ffff"
WRONG: tuple[object, ...] = (0, -1, True, "five")


LISTS: dict[str, Callable[[Onbeat, Any], Awaitable[object]]] = {
    "jobs.list": lambda it, limit: it.jobs.alist(limit=limit),
    "jobs.page": lambda it, limit: it.jobs.apage(limit=limit),
    "jobs.search": lambda it, limit: it.jobs.asearch("state:failed", limit=limit),
    "jobs.bulks": lambda it, limit: it.jobs.abulks(limit=limit),
    "jobs.log": lambda it, limit: it.jobs.alog("id", limit=limit),
    "events.list": lambda it, limit: it.events.alist(limit=limit),
    "audit.list": lambda it, limit: it.audit.alist(limit=limit),
    "failures.list": lambda it, limit: it.failures.alist(limit=limit),
    "failures.replay": lambda it, limit: it.failures.areplay("1", limit=limit),
    "dead_letters.list": lambda it, limit: it.dead_letters.alist(limit=limit),
    "dead_letters.groups": lambda it, limit: it.dead_letters.agroups(limit=limit),
    "dead_letters.replay_group": lambda it, limit: it.dead_letters.areplay_group("g", limit=limit),
    "flows.list": lambda it, limit: it.flows.alist(limit=limit),
    "alerts.list": lambda it, limit: it.alerts.alist(limit=limit),
    "schedules.list": lambda it, limit: it.schedules.alist(limit=limit),
    "schedules.events": lambda it, limit: it.schedules.aevents(HELD, limit=limit),
    "schedules.occurrences": lambda it, limit: it.schedules.aoccurrences(HELD, limit=limit),
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


async def test_a_limit_is_a_whole_number_from_1(beat: Onbeat) -> None:
    for name, verb in LISTS.items():
        for limit in WRONG:
            with pytest.raises(Invalid) as caught:
                await verb(beat, limit)
            assert caught.value.field == "limit", (name, limit)


async def test_other_arguments_are_named_too(beat: Onbeat) -> None:
    wrong: Any = beat
    for field, work in {
        "span": wrong.pulses.ashow("century"),
        "state": wrong.alerts.alist("broken"),
        "order": wrong.failures.alist(order="best"),
        "jobs": wrong.aworkers(jobs=-1),
        "attempt": wrong.jobs.alog("id", attempt="first"),
        "reason": wrong.jobs.acancel("id", 5),
    }.items():
        with pytest.raises(Invalid) as caught:
            await work
        assert caught.value.field == field
