"""`beat.alerts`, and a program that is told of what is wrong."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onbeat import Event, Onbeat
from onbeat.model.errors import Invalid, NotFound
from onbeat.testing.build import DAY

AT = "2026-11-23T03:00Z"


def a_program() -> tuple[Onbeat, Any, list[tuple[str, str]]]:
    """A task in a queue that may be slow; the list gets what the program is told."""
    beat, told = Onbeat("memory://"), list[tuple[str, str]]()

    @beat.task("work", queue="slow")
    def work() -> None: ...

    @beat.schedule(on={"type": "onbeat.alert.*"}, key="announced")
    @beat.task("tell", queue="alerts")
    def tell(event: Event[dict[str, Any]]) -> None:
        told.append((event.type.rpartition(".")[2], event.data["key"]))

    return beat, work, told


def advance(trial: Any, *spans: str) -> None:
    """Let time pass; after each span the watcher looks, and the worker beats, which a trial leaves out."""

    async def look() -> None:
        runtime = (await trial.ensure_open()).runtime
        await runtime.heartbeat.renew_leases()
        await runtime.alerts.step()

    for span in spans:
        trial.advance(span)
        trial.backend.wait_for(look())
    trial.drain()


def test_a_program_is_announced_when_work_is_late_and_when_it_is_not_any_more() -> None:
    beat, work, told = a_program()
    with beat.testing(at=AT) as trial:
        beat.queues.limit("slow", rate="1/h")
        for _ in range(2):
            work.send()
        advance(trial, "2m", "20s")
        assert told == [("raised", "late:slow")]
        (alert,) = beat.alerts.list()
        assert (alert.key, alert.announced, alert.queue) == ("late:slow", True, "slow")
        advance(trial, "70m", "1m")
        assert told == [("raised", "late:slow"), ("resolved", "late:slow")]
        assert [one.key for one in beat.alerts.list("ended")] == ["late:slow"]


def test_a_silence_keeps_it_quiet() -> None:
    beat, work, told = a_program()
    with beat.testing(at=AT) as trial:
        beat.queues.limit("slow", rate="1/h")
        for _ in range(2):
            work.send()
        made = beat.alerts.silence("late:*", "1h", note="migration")
        advance(trial, "10m", "1m")
        assert told == []
        assert [one.silenced for one in beat.alerts.list()] == [True]
        beat.alerts.unsilence(made.id)
        advance(trial, "1m")
        assert told == [("raised", "late:slow")]
        with pytest.raises(NotFound):
            beat.alerts.unsilence(made.id)


def test_alerts_of_one_cause_are_told_together() -> None:
    beat, told = Onbeat("memory://"), list[list[str]]()

    @beat.task("work")
    def work() -> None: ...

    @beat.schedule(on="onbeat.alert.raised", gather={"for": "1m"}, key="announced")
    @beat.task("tell", queue="alerts")
    def tell(events: list[Event[dict[str, Any]]]) -> None:
        told.append(sorted(event.data["key"] for event in events))

    with beat.testing(at=AT) as trial:
        for number in range(40):
            beat.queues.limit(f"q{number}", rate="1/h")
            for _ in range(2):
                work.options(queue=f"q{number}").send()
        advance(trial, "2m", "20s", "20s", "1m")
        assert told == [sorted(f"late:q{number}" for number in range(40))]


@pytest.fixture(params=["local", "service"])
def beat(request: Any) -> Onbeat:
    url = "memory://" if request.param == "local" else request.getfixturevalue("service")
    return Onbeat(url)


async def test_silences_are_made_listed_and_ended(beat: Onbeat) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + DAY
    first = await beat.alerts.asilence("late:mail", until)
    second = await beat.alerts.asilence("*", timedelta(hours=2), note="migration")
    assert first.until == until
    assert list(await beat.alerts.asilences()) == [second, first]
    await beat.alerts.aunsilence(second.id)
    assert list(await beat.alerts.asilences()) == [first]
    window = await beat.alerts.asilence("*", "4h", start=until)
    assert (window.starts_at, window.until) == (until, until + timedelta(hours=4))
    await beat.alerts.aunsilence(window.id)
    assert list(await beat.alerts.alist()) == []
    with pytest.raises(Invalid, match="for must be"):
        await beat.alerts.asilence("*", "soon")
    await beat.aclose()
