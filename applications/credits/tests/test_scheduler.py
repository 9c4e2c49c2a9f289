"""What the scheduler of the old system did, by what takes its place."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from credits.app import CLEAN_UP, SWEEP, TOP_UP, build
from credits.config import Config
from onbeat import Context, Onbeat, Recurrence, Retry, daily, every, first_of_month, weekly
from world import World


@pytest.fixture
def beat() -> Onbeat:
    return Onbeat("memory://")


def occurrences(
    rule: Recurrence, begin: datetime, end: datetime, key: str = "job"
) -> list[datetime]:
    """Those of the jobs that really ran between two instants, begin and end included."""
    beat, ran = Onbeat("memory://"), list[datetime]()

    @beat.task("job")
    async def job(context: Context) -> None:
        assert context.occurrence is not None
        ran.append(context.occurrence)

    with beat.testing(at=begin - timedelta(microseconds=1)) as trial:
        beat.schedules.put(key, rule, job.call())
        trial.advance_to(end)
    return ran


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_s5_a01_the_next_day_begins_at_midnight() -> None:
    assert daily("00:00").after(utc("2024-08-24T14:30")) == utc("2024-08-25T00:00")


@pytest.mark.parametrize(
    ("at", "following"),
    [
        ("2024-08-15T10:30:00", "2024-09-01T00:00"),
        ("2024-08-01T10:30:00", "2024-09-01T00:00"),
        ("2024-12-31T23:59:59", "2025-01-01T00:00"),
    ],
)
def test_s5_a02_the_next_month_begins_on_its_first(at: str, following: str) -> None:
    assert first_of_month().after(utc(at)) == utc(following)


@pytest.mark.parametrize("lag", ["0s", "300ms", "999ms"])
def test_s5_a02_s5_d05_the_first_second_of_a_month_has_one_run(lag: str) -> None:
    """However soon the job has ended, and whenever in that second the planner looks again."""
    begin = utc("2024-08-01T00:00:00")
    assert occurrences(first_of_month(), begin, begin) == [begin]
    beat, ran = Onbeat("memory://"), list[datetime]()

    @beat.schedule(first_of_month(), key="month")
    @beat.task("job")
    async def job(context: Context) -> None:
        assert context.occurrence is not None
        ran.append(context.occurrence)

    with beat.testing(at=begin - timedelta(seconds=1)) as trial:
        trial.drain()
        trial.advance("1s")
        trial.advance(lag if lag != "0s" else timedelta(microseconds=1))
        trial.advance("1m")
    assert ran == [begin]


def test_s5_a03_a_job_that_fails_runs_again_and_each_failure_is_told(
    beat: Onbeat, caplog: pytest.LogCaptureFixture
) -> None:
    enough = threading.Event()
    failed = list[int]()

    @beat.schedule(every("50ms"))
    @beat.task("failing", retry=Retry(attempts_max=1))
    async def failing() -> None:
        failed.append(1)
        if len(failed) > 3:
            enough.set()
        raise ConnectionError("no answer")

    with beat.started():
        assert enough.wait(10)
    told = [record for record in caplog.records if "no answer" in record.getMessage()]
    assert len(told) >= 3


def test_s5_a04_a_job_that_is_due_after_the_stop_does_not_run(beat: Onbeat) -> None:
    ran = threading.Event()

    @beat.task("job")
    async def job() -> None:
        ran.set()

    with beat.started():
        job.options(delay="100ms").send()
    assert not ran.wait(0.2)


def test_s5_a05_runs_of_a_slow_job_never_overlap(beat: Onbeat) -> None:
    here, most = list[int](), list[int]()
    enough = threading.Event()

    @beat.schedule(every("50ms"), overlap="skip")
    @beat.task("slow")
    def slow() -> None:
        here.append(1)
        most.append(len(here))
        time.sleep(0.1)
        here.pop()
        if len(most) > 3:
            enough.set()

    with beat.started():
        assert enough.wait(10)
    assert set(most) == {1}


def test_s5_a06_a_period_of_a_millisecond_has_more_than_ten_runs_in_50() -> None:
    begin = utc("2024-08-01T00:00:00")
    ran = occurrences(every("1ms"), begin, begin + timedelta(milliseconds=50))
    assert len(ran) > 10
    assert len(ran) == len(set(ran))


NIGHTS = [
    ("America/Santiago", "2024-09-08"),
    ("America/Havana", "2024-03-10"),
    ("Asia/Beirut", "2024-03-31"),
    ("Africa/Cairo", "2024-04-26"),
]


@pytest.mark.parametrize(("zone", "day"), NIGHTS)
def test_s5_a07_s5_d04_a_night_without_midnight_has_one_run(
    world: World, zone: str, day: str
) -> None:
    """Of the clean-up itself, from noon to noon."""
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone))
    config = Config(database=world.config.database, uploads=world.config.uploads, zone=zone)
    with build(config).beat.testing(at=noon - timedelta(days=1)) as trial:
        trial.drain()
        trial.advance_to(noon)
        trial.assert_ran(CLEAN_UP, times=1)
        (run,) = trial.ran_of(CLEAN_UP)
        assert run.at.astimezone(ZoneInfo(zone)).date() == noon.date()


def test_s5_06_rules_of_ones_own() -> None:
    begin = utc("2024-08-01T00:00:00")
    end = begin + timedelta(days=14)
    assert len(occurrences(every("6h"), begin, end)) == 56
    mondays = occurrences(weekly("MO", at="03:00"), begin, end)
    assert mondays == [utc("2024-08-05T03:00"), utc("2024-08-12T03:00")]


def test_s5_12_a_program_without_jobs_starts_and_stops(beat: Onbeat) -> None:
    with beat.started():
        assert not beat.schedules.list()
    with beat.started():
        assert not beat.jobs.list()


def test_s5_13_each_schedule_runs_by_itself(world: World) -> None:
    program = build(world.config)
    with program.beat.testing(at="2024-08-30T12:00Z") as trial:
        trial.drain()
        trial.advance_to(utc("2024-09-02T12:00"))
        counts = [len(trial.ran_of(task)) for task in (TOP_UP, CLEAN_UP, SWEEP)]
    assert counts == [1, 3, 3]


def test_s5_d01_a_first_of_the_month_that_was_missed_is_made_up(world: World) -> None:
    """The process was down over midnight, and for three days."""
    world.user("a", 3)
    program = build(world.config)
    with program.beat.testing(at="2024-08-31T12:00Z") as trial:
        trial.drain()
        trial.clock.set(utc("2024-09-03T12:00"))
        trial.drain()
        trial.assert_ran(TOP_UP, times=1)
    assert world.free() == {"a": 10}
    assert world.rows("SELECT DISTINCT period FROM credit_topups") == [("2024-09",)]


def test_s5_d02_a_stop_waits_for_what_runs(beat: Onbeat) -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @beat.task("slow")
    def slow() -> None:
        began.set()
        assert go_on.wait(10)
        ended.set()

    with beat.started():
        slow.send()
        assert began.wait(10)
        threading.Timer(0.2, go_on.set).start()
    assert ended.is_set()


def test_s5_d03_an_exception_of_any_kind_ends_only_its_attempt(beat: Onbeat) -> None:
    @beat.task("broken", retry=Retry(attempts_max=1))
    def broken() -> None:
        raise SystemExit(1)

    @beat.task("well")
    def well() -> int:
        return 7

    with beat.started():
        broken.send()
        assert well.send().result(timeout=10) == 7


def test_s5_d06_two_instances_run_each_occurrence_once(config: Config) -> None:
    """Two programs on one store, in real time."""
    World(config)
    ran, enough = list[datetime](), threading.Event()

    def instance() -> Onbeat:
        beat = Onbeat(config.jobs_store)

        @beat.schedule(every("100ms"), key="job")
        @beat.task("job")
        async def job(context: Context) -> None:
            assert context.occurrence is not None
            ran.append(context.occurrence)
            if len(ran) > 10:
                enough.set()

        return beat

    with instance().started(), instance().started():
        assert enough.wait(20)
    assert len(ran) == len(set(ran))


def test_s5_d07_what_may_be_done_while_it_runs_is_said(beat: Onbeat) -> None:
    @beat.task("job")
    async def job() -> None: ...

    with beat.started():
        with pytest.raises(RuntimeError, match="is running already"):
            beat.schedule(every("1h"))
        with pytest.raises(RuntimeError, match="is running already"):
            beat.started().__enter__()
        beat.schedules.put("later", every("1h"), job.call())
        assert beat.schedules.get("later").status == "active"


def test_s5_d09_a_run_has_an_end(beat: Onbeat) -> None:
    @beat.task("endless", retry=Retry(attempts_max=1), timeout="100ms")
    async def endless() -> None:
        await asyncio.Event().wait()

    with beat.started():
        job = endless.send()
        with pytest.raises(Exception, match=r"timed out|timeout"):
            job.result(timeout=10)


def test_s5_d30_what_ran_and_failed_can_be_asked_and_run_again(beat: Onbeat) -> None:
    tries = list[int]()

    @beat.task("flaky", retry=Retry(attempts_max=1))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("no answer")
        return "done"

    with beat.testing(at="2024-09-01T00:00Z") as trial:
        beat.schedules.put("job", every("1h"), flaky.call())
        id = beat.schedules.trigger("job")
        trial.drain()
        (failed,) = beat.jobs.list(state="failed")
        assert (failed.id, "no answer" in (failed.error or "")) == (id, True)
        beat.jobs.retry(id)
        trial.drain()
        assert beat.jobs.get(id).state == "succeeded"
