import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onbeat import Context, Fail, Invalid, Onbeat, Retry, Snooze, daily, every
from onbeat.model.job import JobState
from onbeat.model.outcome import Failed, Succeeded

AT = "2026-03-28T23:00+01:00"
BEGIN = datetime(2026, 3, 28, 22, tzinfo=UTC)


@pytest.fixture
def beat() -> Any:
    return Onbeat("memory://")


def test_time_stands_still_until_it_is_moved(beat: Onbeat) -> None:
    with beat.testing(at=AT) as trial:
        assert trial.now == BEGIN
        trial.advance("4h")
        assert trial.now == BEGIN + timedelta(hours=4)
        trial.advance_to(BEGIN + timedelta(days=1))
        assert trial.now == BEGIN + timedelta(days=1)
        trial.advance_to("2026-03-30T23:00+00:00")
        assert trial.now == BEGIN + timedelta(days=2, hours=1)
        with pytest.raises(Invalid, match="needs an offset"):
            trial.advance_to("2026-03-31T23:00")


def test_a_night_of_a_changing_clock_runs_its_jobs_at_their_instants(beat: Onbeat) -> None:
    @beat.schedule(daily("02:30", tz="Europe/Berlin"), key="nightly")
    def nightly() -> None: ...

    with beat.testing(at=AT) as trial:
        trial.advance("2d")
        assert [ran.at for ran in trial.ran] == [
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
            datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
        ]


def test_years_pass_in_moments(beat: Onbeat) -> None:
    @beat.schedule(daily("12:00"), key="noon")
    async def noon() -> None: ...

    with beat.testing(at="2020-02-01T00:00Z") as trial:
        trial.advance_to(datetime(2021, 2, 1, tzinfo=UTC))
        trial.assert_ran(noon, 366)


def test_sent_jobs_run_when_drained_and_later_ones_when_due(beat: Onbeat) -> None:
    ran = []

    @beat.task
    def note(n: int) -> None:
        ran.append(n)

    with beat.testing(at=AT) as trial:
        note.send(1)
        note.options(delay="1h").send(2)
        assert ran == []
        trial.drain()
        assert ran == [1]
        trial.advance("59m")
        assert ran == [1]
        trial.advance("1m")
        assert ran == [1, 2]


def test_retries_come_at_their_time(beat: Onbeat) -> None:
    @beat.task(retry=Retry(3, delay="1m", jitter=False))
    def flaky(context: Context) -> int:
        if context.attempt < 3:
            raise Fail("not yet")
        return context.attempt

    with beat.testing(at=AT) as trial:
        job = flaky.send()
        trial.advance("1h")
        assert [ran.at - BEGIN for ran in trial.ran] == [timedelta(minutes=n) for n in (0, 1, 3)]
        assert [type(ran.outcome) for ran in trial.ran] == [Failed, Failed, Succeeded]
        assert job.result() == 3


def test_a_snoozed_job_comes_back(beat: Onbeat) -> None:
    @beat.task
    async def patient() -> None:
        if trial.now < BEGIN + timedelta(hours=1):
            raise Snooze(timedelta(minutes=20))

    with beat.testing(at=AT) as trial:
        job = patient.send()
        trial.advance("2h")
        trial.assert_ran(patient, 4)
        assert job.info().state is JobState.SUCCEEDED
        assert job.info().attempt == 1


def test_handlers_may_send_further_work(beat: Onbeat) -> None:
    @beat.task
    def leaf() -> None: ...

    @beat.task
    async def coroutine() -> None:
        await leaf.asend()

    @beat.task
    def plain() -> None:
        leaf.send()

    with beat.testing(at=AT) as trial:
        coroutine.send()
        plain.send()
        trial.drain()
        trial.assert_ran(leaf, 2)


async def test_coroutines_use_the_other_forms(beat: Onbeat) -> None:
    @beat.schedule(every("1h"), key="hourly")
    async def hourly() -> None: ...

    async with beat.testing(at=AT) as trial:
        await trial.aadvance("3h")
        trial.assert_ran(hourly, 3)
        await trial.aadvance_to(BEGIN + timedelta(hours=4))
        trial.assert_ran(hourly, 4)
        await trial.adrain()


async def test_a_clock_is_stepped_in_one_event_loop(beat: Onbeat) -> None:
    async with beat.testing(at=AT) as trial:
        await trial.aadvance("1h")
        for step in (trial.drain, lambda: trial.advance("1h")):
            with pytest.raises(RuntimeError, match="await aadvance and adrain in coroutines"):
                step()
        await trial.aadvance("1h")
        assert trial.now == BEGIN + timedelta(hours=2)


def test_a_timeout_counts_real_time(beat: Onbeat) -> None:
    @beat.task(timeout=0.02, retry=Retry(1))
    async def stuck() -> None:
        await asyncio.Event().wait()

    with beat.testing(at=AT) as trial:
        job = stuck.send()
        trial.drain()
        assert job.info().error == "timed out after 0.02 s"


def test_what_lapsed_while_its_queue_was_paused_is_judged_on_resumption(beat: Onbeat) -> None:
    @beat.schedule(daily("03:00"), key="nightly", catch_up="none", queue="slow")
    async def nightly() -> None: ...

    with beat.testing(at="2024-08-01T12:00Z") as trial:
        trial.drain()
        beat.queues.pause("slow")
        trial.advance("1d")
        beat.queues.resume("slow")
        trial.drain()
        trial.assert_ran(nightly, 0)
        trial.advance("1d")
        trial.assert_ran(nightly, 1)


def test_a_missing_run_is_told_with_what_did_run(beat: Onbeat) -> None:
    @beat.task("mail.welcome")
    def welcome() -> None: ...

    @beat.task("mail.farewell")
    def farewell() -> None: ...

    with beat.testing(at=AT) as trial:
        welcome.send()
        trial.drain()
        trial.assert_ran(welcome)
        trial.assert_ran("mail.welcome", 1)
        trial.assert_ran(farewell, 0)
        with pytest.raises(AssertionError, match=r"mail\.farewell .* at least once.*mail\.welcome"):
            trial.assert_ran(farewell)
        with pytest.raises(AssertionError, match="2 times, and ran 1 times"):
            trial.assert_ran(welcome, 2)


def test_a_trial_leaves_the_program_as_it_was(beat: Onbeat) -> None:
    store, clock = beat.backend.store, beat.backend.clock

    @beat.task
    def work() -> None: ...

    with beat.testing(at=AT) as trial:
        work.send()
        trial.drain()
        assert beat.backend.store is not store
    assert (beat.backend.store, beat.backend.clock) == (store, clock)
    assert beat.jobs.list() == ()
    with beat.testing(at=AT) as trial:
        trial.assert_ran(work, 0)


def trial_stores(path: Path) -> tuple[str, str]:
    return ("memory://", f"sqlite:///{path}/trial.db")


def test_what_waits_for_a_whole_flow_runs(beat: Onbeat, tmp_path: Path) -> None:
    @beat.task(retry=Retry(attempts_max=1))
    def bill(customer: int) -> int:
        return 1 // customer

    @beat.task
    def close(month: str) -> str:
        return f"{month} is closed"

    for store in trial_stores(tmp_path):
        with beat.testing(at=AT, store=store) as trial:
            whole = beat.batch([bill.call(1), bill.call(2)], then=close.call("June"))
            broken = beat.batch([bill.call(0)], then=close.call("May"), on_failure=close.call("No"))
            last = beat.send([bill.call(1), close.options(after="sent").call("July")])[1]
            trial.drain()
            assert whole.then is not None
            assert whole.then.info().result == "June is closed"
            assert whole.state() is JobState.SUCCEEDED
            assert broken.on_failure is not None
            assert broken.on_failure.info().result == "No is closed"
            assert broken.then is not None
            assert broken.then.info().state is JobState.CANCELLED
            assert last.info().result == "July is closed"
            assert [failure.attempts for failure in beat.failures.list()] == [1]


def test_bulks_run(beat: Onbeat, tmp_path: Path) -> None:
    @beat.task
    def work() -> None: ...

    for store in trial_stores(tmp_path):
        with beat.testing(at=AT, store=store) as trial:
            jobs = beat.send([work.options(delay="3h").call() for _ in range(3)])
            beat.jobs.bulk("cancel", ids=[job.id for job in jobs[:2]])
            trial.drain()
            states = [job.info().state for job in jobs]
            assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.WAITING]
            assert [bulk.done for bulk in beat.jobs.bulks()] == [2]


def test_a_bulk_goes_on_when_its_next_part_is_due(
    beat: Onbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.engine.bulk.BULK_CHUNK", 1)

    @beat.task
    def work() -> None: ...

    with beat.testing(at=AT) as trial:
        jobs = beat.send([work.options(delay="3h").call() for _ in range(3)])
        beat.jobs.bulk("cancel", task=work.name)
        trial.advance("1h")
        assert {job.info().state for job in jobs} == {JobState.CANCELLED}


def test_a_late_queue_is_told(beat: Onbeat) -> None:
    told: list[str] = []

    @beat.schedule(on="onbeat.queue.late", key="late")
    def late() -> None:
        told.append("late")

    @beat.task(queue="slow")
    def work() -> None: ...

    with beat.testing(at=AT) as trial:
        trial.drain()
        beat.queues.limit("slow", late_after="1m")
        beat.queues.pause("slow")
        work.send()
        trial.advance("30s")
        assert told == []
        trial.advance("1h")
        assert told == ["late"]


@pytest.mark.parametrize("at", ["soon", "2026-03-28T23:00", datetime(2026, 3, 28)])  # noqa: DTZ001
def test_a_trial_begins_at_an_instant(beat: Onbeat, at: datetime | str) -> None:
    with pytest.raises(Invalid) as raised:
        beat.testing(at=at)
    assert raised.value.field == "at"


def test_a_schedule_that_never_rests_is_told(beat: Onbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onbeat.app.virtual_clock.ROUNDS_MAX", 20)

    @beat.task
    async def again() -> None:
        await again.asend()

    with beat.testing(at=AT) as trial:
        again.send()
        with pytest.raises(Invalid, match="always more to do"):
            trial.drain()
