"""Everything of one store into another: whole, again, in the right order, and told."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.app.copy import store_copy
from onbeat.app.copy.store_copy import CopyResult, Difference
from onbeat.app.copy.table_copy import BATCH, BATCH_BYTES, BATCH_FIRST, Kind, Tally
from onbeat.app.stores import open_store
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Conflict
from onbeat.model.held_key import ALWAYS
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Failed, Lost, Outcome, Released, Snoozed, Succeeded
from onbeat.model.plan import Skip
from onbeat.model.queue import Limits, Rate
from onbeat.model.recurrence import CalendarSpec, RecurrenceSpec
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget
from onbeat.ports.store import SentJobs, Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_plan,
    a_schedule,
    a_worker,
    an_id,
    an_occurrence,
)
from onbeat.testing.store_contract.copy.events import without_seqs
from onbeat.testing.store_contract.copy.jobs import all_of
from onbeat.testing.store_contract.event_waits import parked_job, review, route
from onbeat.testing.store_contract.events import add_reaction, an_event, open_job
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.job_logs import a_line
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    OTHER_WORKER,
    PASSING_FAILURE,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

MANY = 5_000
SOON = NOW + MINUTE
LONG_AGO = NOW - 30 * DAY

RESULT = Succeeded(msgspec.Raw(b'{"answer":42,"words":["\\u00e4","\xe2\x98\x83"]}'))
LANES: dict[str, Outcome] = {
    "succeeds": RESULT,
    "fails": FAILURE,
    "tries-again": PASSING_FAILURE,
    "snoozes": Snoozed(HOUR),
    "is-lost": Lost("the worker died"),
    "is-released": Released(),
}
CRON = RecurrenceSpec("cron", "0 9 * * 1-5", "Europe/Berlin", dst_gap="skip", dst_fold="both")
EVERY = RecurrenceSpec("every", "15m", anchor="2026-01-01T00:00:00Z", anchored=True)
RULES = {
    "cron": CRON,
    "every": EVERY,
    "rrule": RecurrenceSpec("rrule", "FREQ=MONTHLY;BYDAY=-1FR", "America/New_York"),
    "once": RecurrenceSpec("once", "2031-01-01T00:00:00Z"),
    "function": RecurrenceSpec("function", "a function that only its own program can read"),
    "union": RecurrenceSpec("union", "", members=(CRON, EVERY)),
    "excluding": RecurrenceSpec("excluding", "", members=(EVERY, CRON)),
    "on": RecurrenceSpec(
        "on",
        "",
        members=(CRON,),
        calendar=CalendarSpec((5, 6), ("2030-12-25",), "our holidays"),
        roll="following",
    ),
}


def silent(_kind: Kind, _count: int) -> None:
    pass


async def carried(source: Store, target: Store, told: Callable[..., Any] = silent) -> CopyResult:
    return await store_copy.copy(source, target, NOW, told)


def changed(copied: CopyResult) -> int:
    return sum(tally.changed for tally in copied.tallies.values())


async def contents(store: Store) -> dict[str, Any]:
    """All that there is to copy, as it has to arrive."""
    exports = await all_of(store.export_jobs, lambda export: export.job.id, batch=BATCH)
    return {
        "queues": list(await store.queue_names()),
        "rules": await store_copy.queue_settings(store, NOW),
        "schedules": await all_of(store.export_schedules, lambda export: export.id, batch=BATCH),
        "dispositions": await all_of(
            store.export_dispositions,
            lambda export: (export.schedule_id, export.disposition.first),
            batch=BATCH,
        ),
        "jobs": [replace(export, job=arrived(export.job)) for export in exports],
        "events": without_seqs(await all_of(store.export_events, lambda one: one.event.seq, BATCH)),
        "keys": await all_of(store.export_event_keys, lambda one: one.job_id, BATCH),
        "waits": [
            (replace(one.wait, seq=None), one.event)
            for one in await all_of(
                store.export_event_waits, lambda one: (one.wait.job_id, one.wait.step), BATCH
            )
        ],
        "lines": await all_of(
            store.export_log_lines, lambda line: (line.job_id, line.number), BATCH
        ),
        "held keys": await all_of(store.export_held_keys, lambda held: held.key, batch=BATCH),
        "requests": await all_of(store.export_requests, lambda one: one.digest, batch=BATCH),
        "letters": list(await store.dead_letters(None, BATCH)),
    }


def arrived(job: Job) -> Job:
    if job.state is not JobState.RUNNING:
        return job
    return replace(
        job, state=JobState.WAITING, worker=None, lease_until=None, progress=None, blocked_by=0
    )


def of_task(task: str, count: int, **fields: Any) -> list[Job]:
    return [
        a_job(
            task,
            target=HandlerTarget(task, msgspec.Raw(b"[%d]" % number), msgspec.Raw(b'{"a": "\\n"}')),
            labels={"number": str(number), "\u2603": "\U0001f600"},
            group=f"group-{number % 7}" if number % 2 else None,
            priority=number % 5 - 2,
            retry=IN_A_MINUTE,
            timeout=MINUTE,
            **fields,
        )
        for number in range(count)
    ]


async def lived_in(store: Store, scale: int) -> None:
    """Fill the store with something of every kind: `scale` jobs of each of ten sorts."""
    await awaited(store)
    for lane, outcome in LANES.items():
        await store.enqueue(of_task(lane, scale, queue=lane))
        jobs = await claim_jobs(store, lanes=frozenset({lane}), limit=scale)
        await store.settle([a_settlement(job, outcome) for job in jobs])
    await store.enqueue(of_task("waits", scale // 2, due_at=NOW + DAY, expires_at=NOW + 2 * DAY))
    await store.enqueue(
        [a_job("waits", unique=f"key {number}", start_by=NOW) for number in range(scale // 2)]
    )
    cancelled = of_task("is-cancelled", scale)
    await store.enqueue(cancelled)
    await store.cancel([job.id for job in cancelled], "by hand \u2603", SOON)
    await store.retry([job.id for job in cancelled[: scale // 2]], SOON)
    await blocked(store, scale)
    await run_on(store, scale)
    await scheduled(store)
    await ruled(store)
    await reacted(store)
    await store.enqueue([
        a_job(target=HttpTarget("https://example.org/", "POST", {"X-A": "1"}, "{}", "secret")),
        a_job(target=MessageTarget("bus", "topic", msgspec.Raw(b'{"n":1}'), {"a": "b"})),
    ])  # fmt: skip
    await store.add_dead_letters([a_letter(number) for number in range(250)])
    await held(store)
    await requested(store)
    ended = await store.export_jobs(None, scale)
    await store.add_log_lines([
        a_line(export.job, number, fields='{"n":1}') for export in ended for number in (1, 2, 1_001)
    ])  # fmt: skip


async def requested(store: Store) -> None:
    """Requests with idempotency keys, for jobs and for a schedule."""
    jobs = [a_job("asked") for _ in range(2)]
    await store.enqueue(jobs, a_keyed_request("jobs", *jobs))
    schedule = a_schedule()
    await store.add_schedule(schedule, a_plan(schedule), a_keyed_request("schedule"))


async def held(store: Store) -> None:
    """Keys of ended jobs."""
    jobs = [a_job("holds", unique=f"held {number}", unique_for=DAY) for number in range(5)]
    await store.enqueue([*jobs, a_job("holds", unique="kept", unique_for=ALWAYS)])
    ended = await claim_jobs(store, lanes=frozenset({"holds"}))
    await store.settle([a_settlement(job) for job in ended])


async def reacted(store: Store) -> None:
    schedule = await add_reaction(store)
    for number in range(3):
        await open_job(store, schedule, f"order {number}")
    await store.publish([an_event() for _ in range(300)], NOW)


async def awaited(store: Store) -> None:
    """Jobs that wait for events; one of those has come."""
    for by in ("1", "2", "42"):
        await parked_job(store, by=by)
    await review(store)
    assert await route(store)


async def blocked(store: Store, scale: int) -> None:
    """Chains of three, of which the first may run."""
    for _ in range(scale // 3):
        first = a_job("chained")
        second = a_job("chained", after=(first.id,))
        await store.enqueue([first, second, a_job("chained", after=(first.id, second.id))])


async def run_on(store: Store, scale: int) -> None:
    await store.enqueue([a_job("runs") for _ in range(scale)])
    jobs = await claim_jobs(store, lanes=frozenset({"runs"}), limit=scale)
    await store.note_progress([(job.id, job.token, Progress(1, 2)) for job in jobs])
    cursor = msgspec.Raw(b'{"page":7}')
    await store.enqueue_from(
        [SentJobs(sender=job.id, token=job.token, jobs=(), cursor=cursor) for job in jobs[::2]]
    )
    await store.cancel([job.id for job in jobs[: scale // 5]], "too late", SOON)


async def scheduled(store: Store) -> None:
    """A schedule of every kind, with what became of its occurrences; one of them was deleted."""
    for kind, recurrence in RULES.items():
        schedule = a_schedule(
            name=f"{kind} \u2603",
            key=f"key of {kind}",
            recurrence=recurrence,
            labels={"team": "blue"},
            catch_up=CatchUp.ALL,
            overlap=Overlap.WAIT,
            jitter=SECOND,
            grace=HOUR,
        )
        jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in range(-2, 3)]
        skips = (Skip(NOW - DAY, NOW - 3 * HOUR, "misfire"),)
        await add_planned(store, schedule, *jobs, skips=skips)
    await add_planned(store, a_schedule(status=ScheduleStatus.PAUSED))
    finished, deleted = a_schedule(), a_schedule(key="was deleted")
    await add_planned(store, finished, an_occurrence(finished, NOW - HOUR), finished=True)
    await add_planned(store, deleted, an_occurrence(deleted))
    await store.delete_schedule(deleted.id, NOW)


async def ruled(store: Store) -> None:
    await store.name_queues(["named", "fails"])
    await store.pause_queue("paused", paused=True)
    await store.limit_queue("limited", Limits(concurrency=3, rate=Rate(7, MINUTE)))
    await store.limit_queue("by group", Limits(group_concurrency=1, group_rate=Rate(1, SECOND)))
    await store.pause_queue("by group", paused=True)


def a_letter(number: int) -> DeadLetter:
    return DeadLetter(
        id=DeadLetterId(an_id()),
        at=NOW,
        source="rpc",
        reason="it cannot be read",
        body=b"\x00\xff%d" % number,
        headers={"a": "b"},
    )


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    from stores.postgres import server  # noqa: PLC0415  its driver is heavy

    with server.database(f"onbeat_copying_{os.getpid()}") as url:
        yield url


@pytest.fixture(scope="module")
def mysql() -> Iterator[Any]:
    from stores.mysql import server  # noqa: PLC0415  as above

    with server.database() as url:
        yield url


@pytest.fixture(params=["sqlite to postgres", "sqlite to mysql", "postgres to mysql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    return [url_of(kind, request, tmp_path) for kind in request.param.split(" to ")]


def url_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/onbeat.db"
    return request.getfixturevalue(kind)


@pytest.fixture
async def pair(urls: list[str]) -> AsyncIterator[list[Store]]:
    """Two empty stores: a source and a target."""
    stores = [open_store(url) for url in urls]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()
    for url in urls:
        await emptied(url)


async def emptied(url: str) -> None:
    """The next test has the database, too."""
    if url.startswith("postgresql:"):
        from stores.postgres import server as postgres  # noqa: PLC0415  as above

        await postgres.empty(url, "onbeat")
    elif url.startswith("mysql:"):
        from stores.mysql import server as mysql  # noqa: PLC0415  as above

        mysql.empty(url)


@pytest.fixture
async def stores() -> tuple[MemoryStore, MemoryStore]:
    return MemoryStore(), MemoryStore()


async def test_everything_arrives_as_it_is_and_once(pair: list[Store]) -> None:
    source, target = pair
    await lived_in(source, MANY // 10)
    before = await contents(source)
    assert len(before["jobs"]) >= MANY
    assert {one.job.state for one in before["jobs"]} == {*JobState} - {JobState.RUNNING}
    read = []
    copied = await carried(source, target, lambda kind, count: read.append((kind, count)))
    assert await contents(target) == before
    assert copied.is_whole
    assert copied.only_in_target.left == 0
    for kind, tally in copied.tallies.items():
        assert (kind, tally.read) == (kind, sum(count for of, count in read if of is kind))
        assert (kind, tally.changed) == (kind, tally.read)
        assert tally.read > 0
    assert await store_copy.differences(source, target, NOW) == []
    assert await contents(source) == before
    again = await carried(source, target)
    assert (again.is_whole, changed(again)) == (True, 0)
    assert await contents(target) == before


async def test_a_source_that_goes_on_and_is_copied_again_ends_equal(pair: list[Store]) -> None:
    source, target = pair
    await lived_in(source, 20)
    await carried(source, target)
    await go_on(source)
    second = await carried(source, target)
    assert changed(second) > 0
    assert second.is_whole
    assert await contents(target) == await contents(source)
    await go_on(source)
    third = await carried(source, target)
    assert third.is_whole
    assert await contents(target) == await contents(source)
    assert changed(await carried(source, target)) == 0


async def go_on(store: Store) -> None:
    """What ran ends in every way, what waited runs, schedules are planned on, people act."""
    outcomes: list[Outcome] = [*LANES.values(), Failed("worse", retryable=False)]
    runs = [one.job for one in await all_of(store.export_jobs, lambda one: one.job.id, batch=BATCH)
            if one.job.state is JobState.RUNNING]  # fmt: skip
    for number, job in enumerate(runs[:-5]):
        await end(store, job, outcomes[number % len(outcomes)], SOON)
    for lane in ("tries-again", "is-lost", "chained", "runs", "waits"):
        await claim_jobs(store, lanes=frozenset({lane}), limit=6, now=NOW + HOUR)
    failed = [one.job for one in await all_of(store.export_jobs, lambda one: one.job.id)
              if one.job.state is JobState.FAILED]  # fmt: skip
    await store.retry([job.id for job in failed[:3]], SOON)
    await store.cancel([failed[0].id], "it was not worth it", SOON)
    await store.enqueue(of_task("succeeds", 10))
    for schedule in await store.due_schedules(NOW, 3):
        await store.apply_plans([
            a_plan(schedule, an_occurrence(schedule, schedule.planned_through + HOUR))
        ])  # fmt: skip
    await add_planned(store, a_schedule())
    await store.pause_queue("paused", paused=False)
    await store.limit_queue("limited", Limits(concurrency=4))
    await store.add_dead_letters([a_letter(1)])


async def filled(store: Store, count: int = BATCH_FIRST) -> list[Job]:
    """So many jobs, so that what comes later is in another batch."""
    jobs = [a_job("other") for _ in range(count)]
    await store.enqueue(jobs)
    return jobs


async def test_a_job_waits_for_those_that_have_later_ids(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    ids = [JobId(an_id()) for _ in range(2)]
    await filled(source)
    first = a_job()
    await source.enqueue([first])
    # As those of a distributor's jobs are, which follow from its own id.
    second = a_job(id=ids[1], after=(first.id,))
    await source.enqueue([second])
    await source.enqueue([a_job(id=ids[0], after=(second.id,))])
    copied = await carried(source, target)
    assert copied.is_whole
    assert await contents(target) == await contents(source)
    assert ids_of(await claim_jobs(target)) == [first.id]


async def test_a_job_waits_for_what_comes_much_later(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    waiting = [JobId(an_id()) for _ in range(20)]
    await filled(source)
    firsts = [a_job() for _ in waiting]
    await source.enqueue(firsts)
    await source.enqueue(
        [a_job(id=id, after=tuple(ids_of(firsts[place:]))) for place, id in enumerate(waiting)]
    )
    await filled(source, BATCH)
    await carried(source, target)
    assert ids_of(await claim_jobs(target)) == ids_of(firsts)
    assert await store_copy.differences(source, target, NOW) == []


async def test_a_key_that_goes_to_an_earlier_job_goes_to_it_in_the_target(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    earlier = await run_and_end(source, a_job(unique="key"), FAILURE)
    waiting = a_job(after=(earlier.id,))
    await filled(source)
    later = a_job(unique="key")
    await source.enqueue([later])
    await carried(source, target)
    await source.cancel([later.id], "by hand", NOW)
    await source.retry([earlier.id], NOW)
    await source.enqueue([waiting])
    copied = await carried(source, target)
    assert copied.is_whole
    assert await contents(target) == await contents(source)
    assert ids_of(await claim_jobs(target)) == [earlier.id]


async def test_a_job_waits_for_one_that_was_retried_by_hand(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    first = await run_and_end(source, a_job(), FAILURE)
    await carried(source, target)
    await source.retry([first.id], NOW)
    second = a_job(after=(first.id,), priority=-1)
    await source.enqueue([second])
    assert (await carried(source, target)).is_whole
    assert ids_of(await claim_jobs(target)) == [first.id]


async def test_a_job_without_its_key_is_left_with_what_waits_for_it(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    await target.enqueue([a_job(unique="key")])
    keyed = a_job(unique="key")
    then = a_job(after=(keyed.id,))
    last = a_job(after=(then.id,))
    free = a_job()
    await source.enqueue([keyed, then, last, free])
    copied = await carried(source, target)
    assert copied.tallies[Kind.JOBS] == Tally(4, 1, 3, tuple(ids_of([keyed, then, last])))
    assert not copied.is_whole
    assert await target.job(then.id) is None
    assert await stored_job(target, free) == free
    answer = await store_copy.differences(source, target, NOW)
    assert answer == [Difference("waiting jobs", 4, 2)]


async def test_a_job_that_went_on_in_the_target_is_left_and_named(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    job = await run_job(source, a_job())
    await carried(source, target)
    (again,) = await claim_jobs(target, worker=OTHER_WORKER)
    await end(source, job, FAILURE)
    copied = await carried(source, target)
    assert (copied.tallies[Kind.JOBS].left, copied.tallies[Kind.JOBS].named) == (1, (job.id,))
    assert await stored_job(target, job) == again
    done = await end(target, again)
    await source.retry([job.id], NOW)
    assert (await carried(source, target)).tallies[Kind.JOBS].left == 1
    assert await stored_job(target, job) == done


async def test_a_job_that_was_released_at_the_stop_is_as_it_was_left(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    job = await run_job(source, a_job())
    await carried(source, target)
    released = await end(source, job, Released())
    assert (await carried(source, target)).is_whole
    answer = await stored_job(target, job)
    assert answer == released
    assert [attempt.outcome for attempt in await target.attempts(job.id)] == ["released"]


async def test_a_job_that_ran_again_and_was_killed_is_as_it_was_left(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    job = await run_job(source, a_job())
    await carried(source, target)
    await end(source, job, Released())
    await carried(source, target)
    (again,) = await claim_jobs(source, now=SOON)
    assert (await carried(source, target)).is_whole
    assert (await stored_job(target, job)).started_at == again.started_at


async def test_a_schedule_that_was_edited_since_is_followed(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule = a_schedule()
    job = an_occurrence(schedule, NOW + HOUR)
    await add_planned(source, schedule, job)
    await carried(source, target)
    renamed = replace(schedule, version=2, priority=3, planned_through=NOW + HOUR)
    assert await source.update_schedule(renamed, None, NOW)
    assert (await carried(source, target)).is_whole
    assert await contents(target) == await contents(source)
    paused = replace(renamed, version=3, status=ScheduleStatus.PAUSED)
    assert await source.update_schedule(paused, a_plan(paused, planned_through=NOW), NOW)
    assert (await carried(source, target)).is_whole
    assert await contents(target) == await contents(source)
    assert changed(await carried(source, target)) == 0


async def test_an_edit_that_came_while_it_was_copied_is_followed_by_the_next_copy(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    """Whatever of it the first copy has brought already."""
    source, target = stores
    schedule = a_schedule()
    await add_planned(source, schedule, an_occurrence(schedule, NOW + HOUR))
    for kind in (Kind.SCHEDULES, Kind.DISPOSITIONS, Kind.JOBS):
        await carried_with_edit_after(kind, source, target, schedule.id)
        assert (await carried(source, target)).is_whole
        assert await contents(target) == await contents(source)


async def carried_with_edit_after(kind: Kind, source: Store, target: Store, id: ScheduleId) -> None:
    """The rows of the kind are read, then the schedule is planned anew, then the rest is copied."""
    edits: list[Any] = []

    def edit(told: Kind, _count: int) -> None:
        if told is kind and not edits:
            edits.append(asyncio.ensure_future(planned_anew(source, id)))

    # What comes next yields to the edit before it reads: the memory store never waits.
    await carried(Yielding(source), target, edit)
    assert [await one for one in edits] == [True]


class Yielding:
    """A store that lets others act before each of its calls."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            return await getattr(self.store, name)(*args, **named)

        return call


async def planned_anew(store: Store, id: ScheduleId) -> bool:
    before = await store.schedule(id)
    edited = replace(before, version=before.version + 1, planned_through=NOW)
    job = an_occurrence(edited, NOW + HOUR)
    return await store.update_schedule(edited, a_plan(edited, job), NOW)


async def test_a_schedule_that_was_changed_in_both_is_left_and_named(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule = a_schedule()
    await add_planned(source, schedule, an_occurrence(schedule, NOW + HOUR))
    await carried(source, target)
    theirs = replace(schedule, version=2, name="theirs", updated_at=SOON)
    ours = replace(schedule, version=2, name="ours", updated_at=NOW)
    assert await target.update_schedule(theirs, None, NOW)
    assert await source.update_schedule(ours, None, NOW)
    copied = await carried(source, target)
    assert copied.tallies[Kind.SCHEDULES].named == (schedule.id,)
    assert await target.schedule(schedule.id) == replace(theirs, planned_through=NOW + HOUR)


async def test_what_was_said_of_the_past_may_differ(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule = a_schedule(planned_through=NOW - DAY)
    skip = Skip(NOW - 3 * HOUR, NOW - HOUR, "misfire")
    await add_planned(source, schedule, skips=(skip,), planned_through=NOW)
    await carried(source, target)
    await source.backfill(schedule.id, [an_occurrence(schedule, NOW - 2 * HOUR)], ())
    assert (await carried(source, target)).is_whole


async def test_a_schedule_that_only_the_target_has_is_named(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule = a_schedule()
    await add_planned(target, schedule, an_occurrence(schedule, NOW + HOUR))
    await add_planned(source, a_schedule())
    copied = await carried(source, target)
    assert copied.only_in_target == Tally(left=1, named=(schedule.id,))
    assert copied.is_whole
    answer = await store_copy.differences(source, target, NOW)
    assert answer == [Difference("active schedules", 1, 2), Difference("waiting jobs", 0, 1)]


async def test_a_schedule_that_was_deleted_since_is_deleted(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule, other = a_schedule(key="key"), a_schedule()
    done, coming = an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
    await add_planned(source, schedule, done, coming)
    await add_planned(source, other)
    await carried(source, target)
    await end(source, (await claim_jobs(source))[0])
    await source.delete_schedule(schedule.id, NOW)
    await add_planned(source, a_schedule(key="key"))
    copied = await carried(source, target)
    assert (copied.is_whole, copied.only_in_target) == (True, Tally())
    assert copied.tallies[Kind.SCHEDULES] == Tally(2, 2)
    assert await contents(target) == await contents(source)
    assert changed(await carried(source, target)) == 0


async def test_a_deleted_schedule_goes_when_its_last_job_has_ended(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    schedule = a_schedule()
    await add_planned(
        source, schedule, an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
    )
    (runs,) = await claim_jobs(source)
    await carried(source, target)
    await source.delete_schedule(schedule.id, NOW)
    assert (await carried(source, target)).only_in_target.named == (schedule.id,)
    await end(source, runs)
    assert (await carried(source, target)).only_in_target == Tally()
    assert await contents(target) == await contents(source)


async def test_a_deleted_schedule_that_went_on_in_the_target_is_named(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    edited, ran = a_schedule(), a_schedule()
    for schedule in (edited, ran):
        await add_planned(source, schedule, an_occurrence(schedule, NOW + HOUR))
    await carried(source, target)
    theirs = replace(edited, version=2, name="theirs", updated_at=SOON)
    assert await target.update_schedule(theirs, None, NOW)
    own = a_job(schedule_id=ran.id)
    await target.enqueue([own])
    for schedule in (edited, ran):
        await source.delete_schedule(schedule.id, NOW)
    copied = await carried(source, target)
    assert copied.only_in_target == Tally(left=2, named=(edited.id, ran.id))
    assert ids_of(await claim_jobs(target, now=NOW + DAY)) == [own.id]


async def test_another_schedule_with_the_key_stops_the_copy(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    await add_planned(target, a_schedule(key="nightly"))
    await add_planned(source, a_schedule(key="nightly"))
    await source.enqueue([a_job()])
    with pytest.raises(Conflict, match="nightly"):
        await carried(source, target)


async def test_a_copy_that_was_interrupted_goes_on(stores: tuple[MemoryStore, MemoryStore]) -> None:
    source, target = stores
    jobs = await filled(source, 3 * BATCH_FIRST)
    copying_it = asyncio.ensure_future(carried(source, target, lambda *_: copying_it.cancel()))
    with pytest.raises(asyncio.CancelledError):
        await copying_it
    brought = (await target.stats(NOW)).jobs["waiting"]
    assert 0 < brought < len(jobs)
    copied = await carried(source, target)
    assert changed(copied) == len(jobs) - brought
    assert await contents(target) == await contents(source)


async def test_jobs_with_much_in_them_come_in_smaller_batches(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    size = 40_000
    args = msgspec.json.encode(["x" * size])
    heavy = [a_job(target=HandlerTarget("work", msgspec.Raw(args))) for _ in range(250)]
    await source.enqueue(heavy)
    read = []
    await carried(source, target, lambda kind, count: read.append((kind, count)))
    batches = [count for kind, count in read if kind is Kind.JOBS]
    assert batches[0] == BATCH_FIRST
    assert max(batches[1:]) * size <= BATCH_BYTES
    assert sum(batches) == len(heavy)


async def test_many_small_jobs_come_in_large_batches(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    await filled(source, 2 * BATCH)
    read = []
    await carried(source, target, lambda kind, count: read.append((kind, count)))
    batches = [count for kind, count in read if kind is Kind.JOBS]
    assert batches == [BATCH_FIRST, BATCH, 2 * BATCH - BATCH - BATCH_FIRST]


async def test_jobs_of_the_targets_own_stay_between_those_that_come(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    for _ in range(4):
        await filled(source, 30)
        await filled(target, 30)
    own = {one.job.id for one in await all_of(target.export_jobs, lambda one: one.job.id)}
    copied = await carried(source, target)
    assert copied.tallies[Kind.JOBS] == Tally(120, 120)
    assert changed(await carried(source, target)) == 0
    here = {one.job.id for one in await all_of(target.export_jobs, lambda one: one.job.id)}
    assert (own <= here, len(here)) == (True, 240)


async def test_a_queue_that_is_free_again_is_free_in_the_target(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    source, target = stores
    await source.pause_queue("paused", paused=True)
    await source.limit_queue("limited", Limits(concurrency=1))
    await carried(source, target)
    await source.pause_queue("paused", paused=False)
    await source.limit_queue("limited", Limits())
    await target.pause_queue("own", paused=True)
    assert (await carried(source, target)).tallies[Kind.QUEUES] == Tally(2, 2)
    (own,) = await target.queues(NOW)
    assert (own.name, own.paused) == ("own", True)


async def test_counting_reads_and_writes_nothing(stores: tuple[MemoryStore, MemoryStore]) -> None:
    source, target = stores
    await lived_in(source, 10)
    before = await contents(source)
    counts = await store_copy.count(source, NOW, silent)
    assert await contents(source) == before
    copied = await carried(source, target)
    assert counts == {kind: tally.read for kind, tally in copied.tallies.items()}


async def test_one_store_by_two_names_is_known(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path)
    paths = ["onbeat.db", "other/onbeat.db", "another.db"]
    one, same, another = [open_store(f"sqlite:///{tmp_path}/{path}") for path in paths]
    for store in (one, same, another):
        await store.open()
    try:
        assert await store_copy.are_same_store(one, same, NOW)
        assert not await store_copy.are_same_store(one, another, NOW)
        assert [len(await store.workers()) for store in (one, another)] == [0, 0]
    finally:
        for store in (one, same, another):
            await store.close()


async def test_workers_of_which_nothing_is_heard_do_not_live(
    stores: tuple[MemoryStore, MemoryStore],
) -> None:
    store, _ = stores
    alive, silent_for_long = a_worker(beat_at=NOW), a_worker(beat_at=NOW - DAY)
    for worker in (alive, silent_for_long):
        await store.heartbeat(worker)
    assert [worker.id for worker in await store_copy.live_workers(store, NOW)] == [alive.id]


async def test_a_running_job_is_no_difference(stores: tuple[MemoryStore, MemoryStore]) -> None:
    source, target = stores
    await run_job(source, a_job())
    await carried(source, target)
    assert await store_copy.differences(source, target, NOW) == []
