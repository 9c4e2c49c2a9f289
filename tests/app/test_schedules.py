from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from conditions import eventually
from onbeat import (
    Context,
    Invalid,
    NotFound,
    Onbeat,
    Retry,
    Snooze,
    cron,
    daily,
    every,
    first_of_month,
    rrule,
)
from onbeat.model.job import JobState
from onbeat.recurrence.recurrence import Recurrence


def a_beat() -> Any:
    return Onbeat("memory://")


def local(text: str, zone: Any) -> Any:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def seen_by(beat: Onbeat, recurrence: Any, at: Any, until: Any, **policies: Any) -> Any:
    """Which occurrences of the rule run from `at` until then, in their order."""
    occurrences = []

    @beat.schedule(recurrence, key="job", **policies)
    async def job(context: Context) -> None:
        occurrences.append(context.occurrence)

    with beat.testing(at=at) as trial:
        trial.advance_to(until)
    return occurrences


# Days and months.


@pytest.mark.parametrize(
    ("rule", "at", "first"),
    [
        (daily("00:00"), "2024-08-24T14:30", "2024-08-25T00:00"),
        (first_of_month(), "2024-08-15T10:30", "2024-09-01T00:00"),
        (first_of_month(), "2024-08-01T10:30", "2024-09-01T00:00"),
        (first_of_month(), "2024-12-31T23:59:59", "2025-01-01T00:00"),
        (first_of_month(), "2024-07-31T23:59:59.999999", "2024-08-01T00:00"),
    ],
)
def test_the_next_day_or_month_begins_at_its_midnight_and_once(
    rule: Recurrence, at: str, first: str
) -> None:
    begin, midnight = local(at, "UTC"), local(first, "UTC")
    assert seen_by(a_beat(), rule, begin, midnight + timedelta(minutes=5)) == [midnight]


def test_the_first_second_of_a_month_holds_one_run_however_short() -> None:
    begin = local("2024-08-01T00:00", "UTC")
    occurrences = seen_by(
        a_beat(), first_of_month(), begin - timedelta(seconds=1), begin + timedelta(seconds=2)
    )
    assert occurrences == [begin]


MIDNIGHTS = [
    # The clocks skip midnight; the day begins at one.
    ("America/Santiago", "2024-09-08", "2024-09-08T01:00"),
    ("America/Havana", "2024-03-10", "2024-03-10T01:00"),
    ("Asia/Beirut", "2024-03-31", "2024-03-31T01:00"),
    ("Africa/Cairo", "2024-04-26", "2024-04-26T01:00"),
]


@pytest.mark.parametrize(("zone", "day", "begins"), MIDNIGHTS)
def test_a_daily_job_runs_once_in_a_night_without_midnight(
    zone: str, day: str, begins: str
) -> None:
    begin = local(f"{day}T12:00", zone).astimezone(UTC) - timedelta(days=2)
    occurrences = seen_by(a_beat(), daily("00:00", tz=zone), begin, begin + timedelta(days=4))
    days = Counter(occurrence.astimezone(ZoneInfo(zone)).date() for occurrence in occurrences)
    assert set(days.values()) == {1}
    assert len(days) == 4
    assert local(begins, zone).astimezone(UTC) in occurrences


@pytest.mark.parametrize(
    ("zone", "day"), [("America/Havana", "2024-11-03"), ("Europe/Berlin", "2026-10-25")]
)
def test_a_daily_job_runs_once_in_a_night_with_two_midnights(zone: str, day: str) -> None:
    begin = local(f"{day}T12:00", zone).astimezone(UTC) - timedelta(days=2)
    for time in ("00:00", "02:30"):
        occurrences = seen_by(a_beat(), daily(time, tz=zone), begin, begin + timedelta(days=4))
        days = Counter(occurrence.astimezone(ZoneInfo(zone)).date() for occurrence in occurrences)
        assert set(days.values()) == {1}
        assert len(days) == 4


def test_an_hourly_job_runs_in_every_hour_that_passes_while_clocks_change() -> None:
    begin = local("2026-10-25T00:30", "Europe/Berlin").astimezone(UTC)
    occurrences = seen_by(
        a_beat(), cron("0 * * * *", tz="Europe/Berlin"), begin, begin + timedelta(hours=5)
    )
    assert occurrences == [begin + timedelta(minutes=30 + 60 * n) for n in range(5)]


# Errors, overlap, stopping.


async def test_a_job_that_fails_every_time_keeps_its_schedule() -> None:
    beat, runs = a_beat(), []

    @beat.task(retry=Retry(1))
    async def broken() -> None:
        runs.append(1)
        raise ValueError("again")

    await beat.schedules.aput("broken", every("50ms"), broken.call())
    async with beat:
        await eventually(lambda: len(runs) >= 5, "the job keeps running")
        failed = await beat.jobs.alist(state=JobState.FAILED)
        assert all("again" in job.error for job in failed)


async def test_a_job_that_is_due_soon_does_not_run_after_a_stop() -> None:
    beat, runs = a_beat(), []

    @beat.schedule(every("100ms"))
    async def soon() -> None:
        runs.append(1)

    async with beat:
        pass
    at_stop = len(runs)
    assert at_stop <= 1
    waiting = await beat.jobs.alist(state=JobState.WAITING)
    assert waiting
    assert len(runs) == at_stop


async def test_runs_never_overlap_where_the_schedule_says_so() -> None:
    beat = a_beat()
    running, peak = 0, 0
    ends: list[int] = []

    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await eventually(lambda: len(ends) > len(finished), "let on")
        finished.append(1)
        running -= 1

    def has_ended(count: int) -> bool:
        return len(finished) == count

    finished: list[int] = []
    beat.schedule(every("20ms"), overlap="skip")(work)
    async with beat:
        for n in range(1, 5):
            await eventually(lambda: running == 1, "it runs")
            ends.append(n)
            await eventually(partial(has_ended, n), "it has ended")
    assert peak == 1


async def test_a_period_of_a_millisecond_runs_many_times() -> None:
    beat, runs = a_beat(), []

    @beat.schedule(every("1ms"))
    async def often() -> None:
        runs.append(1)

    async with beat:
        await eventually(lambda: len(runs) > 10, "it runs more than ten times")


async def test_a_task_with_a_name_of_its_own_can_be_put_on_a_schedule() -> None:
    beat, runs = a_beat(), []

    @beat.schedule(every("10ms"))
    @beat.task("tidy.up", queue="slow")
    async def tidy() -> None:
        runs.append(1)

    async with beat:
        await eventually(lambda: runs, "it runs")
    schedule = await beat.schedules.aget("tidy.up")
    assert (schedule.queue, schedule.target.task) == ("slow", "tidy.up")
    assert list(beat.backend.registry.handlers) == ["tidy.up"]


# Catching up.


def test_a_missed_month_is_made_up_for_after_a_restart(tmp_path: Path) -> None:
    """The process was down at midnight of the first."""
    beat, runs = a_beat(), []

    @beat.schedule(first_of_month(), key="top up")
    async def top_up(context: Context) -> None:
        runs.append(context.occurrence)

    with beat.testing(at="2024-08-15T10:30Z") as trial:
        trial.drain()
        trial.clock.set(datetime(2024, 9, 2, tzinfo=UTC))
        trial.drain()
    assert runs == [datetime(2024, 9, 1, tzinfo=UTC)]


@pytest.mark.parametrize(("catch_up", "count"), [("latest", 1), ("all", 5), ("none", 0)])
def test_what_an_outage_missed_runs_as_the_schedule_says(catch_up: str, count: int) -> None:
    beat, runs = a_beat(), []

    @beat.schedule(daily("03:00"), key="nightly", catch_up=catch_up)
    async def nightly(context: Context) -> None:
        runs.append(context.occurrence)

    with beat.testing(at="2024-08-01T12:00Z") as trial:
        trial.drain()
        trial.clock.set(datetime(2024, 8, 6, 12, tzinfo=UTC))
        trial.drain()
    assert runs == [datetime(2024, 8, 7 - n, 3, tzinfo=UTC) for n in range(count, 0, -1)]


# Declaring and changing.


def in_half_a_day(minutes: int = 0) -> Any:
    """A time of day that no test comes near, at whatever time it runs."""
    at = datetime.now(UTC) + timedelta(hours=12, minutes=minutes)
    return f"{at:%H:%M}"


def declared(url: str, rule: Any, **policies: Any) -> Any:
    beat = Onbeat(url)

    @beat.schedule(rule, key="nightly", **policies)
    async def nightly() -> None: ...

    return beat


async def test_a_declared_schedule_is_the_same_after_every_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/onbeat.db"
    seen, at = [], in_half_a_day()
    for _ in range(3):
        beat = declared(url, daily(at))
        async with beat:
            schedule = await beat.schedules.aget("nightly")
            jobs = await beat.jobs.alist()
            seen.append((schedule.id, [job.id for job in jobs]))
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0][1]) == 1


async def test_an_interval_keeps_its_beat_over_restarts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/onbeat.db"
    seen = set()
    for _ in range(3):
        beat = declared(url, every("1h"))
        async with beat:
            (job,) = await beat.jobs.alist()
            seen.add(job.occurrence)
    assert len(seen) == 1


async def test_a_changed_declaration_changes_the_schedule_and_its_jobs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/onbeat.db"
    async with declared(url, daily(in_half_a_day())) as beat:
        before = await beat.schedules.aget("nightly")
    later = in_half_a_day(minutes=5)
    async with declared(url, daily(later), queue="slow") as beat:
        after = await beat.schedules.aget("nightly")
        (job,) = await beat.jobs.alist(state=JobState.WAITING)
    assert after.id == before.id
    assert (f"{job.occurrence:%H:%M}", job.queue) == (later, "slow")


async def test_a_schedule_can_be_put_read_paused_triggered_and_deleted(beat: Onbeat) -> None:
    @beat.task("work")
    async def work() -> None: ...

    id = await beat.schedules.aput("ping", every("15m"), work.call(), name="Ping")
    assert await beat.schedules.aput("ping", every("15m"), work.call(), name="Ping") == id
    assert (await beat.schedules.aget("ping")).name == "Ping"
    assert [one.id for one in await beat.schedules.alist(q="PIN")] == [id]
    triggered = await beat.schedules.atrigger("ping")
    assert (await beat.jobs.aget(triggered)).schedule_id == id
    await beat.schedules.apause("ping")
    assert (await beat.schedules.aget("ping")).status == "paused"
    await beat.schedules.aresume("ping")
    await beat.schedules.adelete("ping")
    with pytest.raises(NotFound, match="'ping'"):
        await beat.schedules.aget("ping")


@pytest.mark.parametrize(
    ("policies", "field"),
    [
        ({"catch_up": "sometimes"}, "catch_up"),
        ({"overlap": "maybe"}, "overlap"),
        ({"grace": "soon"}, "grace"),
        ({"jitter": -1}, "jitter"),
        ({"queue": ""}, "queue"),
        ({"priority": 10**6}, "priority"),
        ({"name": "x" * 1000}, "name"),
        ({"labels": {"a": "\n"}}, "labels.a"),
        ({"starts_at": datetime(2030, 1, 1)}, "starts_at"),  # noqa: DTZ001
        ({"ends_at": datetime(2030, 1, 1)}, "ends_at"),  # noqa: DTZ001
        (
            {
                "starts_at": datetime(2031, 1, 1, tzinfo=UTC),
                "ends_at": datetime(2030, 1, 1, tzinfo=UTC),
            },
            "ends_at",
        ),
    ],
)
async def test_a_policy_that_cannot_be_right_is_refused_by_name(
    policies: dict[str, Any], field: str
) -> None:
    beat = a_beat()
    work = beat.task("work")(lambda: None)
    with pytest.raises(Invalid) as raised:
        await beat.schedules.aput("key", every("1m"), work.call(), **policies)
    assert raised.value.field == field


async def test_a_rule_that_can_never_fire_is_refused() -> None:
    beat = a_beat()
    work = beat.task("work")(lambda: None)
    past = rrule("DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=3")
    with pytest.raises(Invalid, match="never run"):
        await beat.schedules.aput("key", past, work.call())


async def test_schedules_are_declared_before_the_start() -> None:
    beat = a_beat()
    async with beat:
        with pytest.raises(RuntimeError, match=r"schedules\.put"):
            beat.schedule(every("1m"))


# Any function of time.


def test_any_function_of_time_can_be_a_schedule() -> None:
    def fridays(after: datetime) -> datetime:
        day = after.replace(hour=9, minute=0, second=0, microsecond=0)
        while day <= after or day.weekday() != 4:
            day += timedelta(days=1)
        return day

    begin = datetime(2024, 8, 1, tzinfo=UTC)
    assert seen_by(a_beat(), fridays, begin, begin + timedelta(days=15)) == [
        datetime(2024, 8, 2, 9, tzinfo=UTC),
        datetime(2024, 8, 9, 9, tzinfo=UTC),
    ]


def test_a_function_of_time_that_ends_finishes_its_schedule() -> None:
    last = datetime(2024, 8, 1, 12, tzinfo=UTC)

    def until_noon(after: datetime) -> datetime | None:
        following = after.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return following if following <= last else None

    begin = datetime(2024, 8, 1, 9, 30, tzinfo=UTC)
    assert len(seen_by(a_beat(), until_noon, begin, begin + timedelta(days=1))) == 3


async def test_a_function_of_time_that_this_program_does_not_know_waits_for_one_that_does(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/onbeat.db"

    def half_a_second(after: datetime) -> datetime:
        return after + timedelta(milliseconds=100)

    async with declared(url, half_a_second) as beat:
        await eventually(lambda: ran_twice(beat), "it runs")
    stranger = Onbeat(url)
    async with stranger:
        assert (await stranger.schedules.aget("nightly")).status == "active"
    async with declared(url, half_a_second) as beat:
        before = len(await beat.jobs.alist(state=JobState.SUCCEEDED))
        await eventually(lambda: more_than(beat, before), "it runs again")


async def ran_twice(beat: Onbeat) -> Any:
    return await more_than(beat, 1)


async def more_than(beat: Onbeat, count: int) -> Any:
    return len(await beat.jobs.alist(state=JobState.SUCCEEDED)) > count


async def test_a_snooze_moves_a_run_and_not_its_schedule() -> None:
    beat, seen = a_beat(), []

    @beat.schedule(daily("03:00"), key="nightly")
    async def nightly(context: Context) -> None:
        seen.append((context.occurrence.day, context.attempt))
        if len(seen) == 1:
            raise Snooze(timedelta(hours=2))

    async with beat.testing(at="2024-08-01T12:00Z") as trial:
        await trial.aadvance("2d")
    assert seen == [(2, 1), (2, 1), (3, 1)]
