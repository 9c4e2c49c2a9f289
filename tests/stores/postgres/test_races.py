"""Several stores, threads and loops at the same rows: still each thing happens once."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from msgspec.structs import replace

from conditions import eventually
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Failed, Released
from onbeat.model.page import JobFilter
from onbeat.model.schedule import Overlap, ScheduleStatus
from onbeat.model.worker import carrier_id
from onbeat.ports.store import SentJobs
from onbeat.stores.postgres.store import PostgresStore
from onbeat.testing.build import HOUR, NOW, SECOND, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    a_request,
    a_settlement,
    add_planned,
    claim_jobs,
    ids_of,
    run_job,
    stored_job,
)

THREADS = 4


def in_threads(act: Callable[[int], Awaitable[object]]) -> Awaitable[object]:
    """`act` in each of some threads, each with a loop of its own."""
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            asyncio.run(as_coroutine(act(number)))
        except BaseException as error:  # noqa: BLE001  told below
            errors.append(error)

    async def work() -> None:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert errors == []

    return work()


async def as_coroutine(work: Awaitable[object]) -> None:
    await work


async def test_two_stores_give_each_job_out_once(
    store: PostgresStore, other: PostgresStore
) -> None:
    jobs = [a_job() for _ in range(400)]
    await store.enqueue(jobs)
    answers = await asyncio.gather(
        *(one.claim(a_request(limit=7)) for one in (store, other) * 40),
    )
    taken = ids_of([job for answer in answers for job in answer.jobs])
    assert sorted(taken) == ids_of(jobs)


async def test_claims_beside_each_other_never_pass_the_limit(
    store: PostgresStore, other: PostgresStore
) -> None:
    await store.enqueue([a_job(queue=f"q{number % 5}") for number in range(300)])
    answers = await asyncio.gather(
        *(one.claim(a_request(limit=3)) for one in (store, other) * 20),
    )
    assert {len(answer.jobs) for answer in answers} == {3}


async def test_claims_settlements_and_cancels_of_the_same_jobs(
    store: PostgresStore, other: PostgresStore
) -> None:
    jobs = [a_job() for _ in range(200)]
    await store.enqueue(jobs)
    ended: list[str] = []

    async def work(number: int) -> None:
        one, worker = (store, other)[number % 2], WorkerId(f"worker-{number}")
        while claim := (await one.claim(a_request(worker=worker, limit=9))).jobs:
            outcome = Released() if random.random() < 0.3 else Failed("no", retryable=False)
            answers = await one.settle([a_settlement(job, outcome) for job in claim])
            ended.extend(job.id for job, kept in zip(claim, answers, strict=True) if kept)
            await one.cancel([random.choice(jobs).id], "by hand", NOW)

    await in_threads(work)
    after = [await stored_job(store, job) for job in jobs]
    assert {job.state for job in after} <= {JobState.FAILED, JobState.CANCELLED}
    attempts = Counter({job.id: len(await store.attempts(job.id)) for job in jobs})
    assert +attempts == Counter(ended), "an outcome was lost, or counted twice"


async def test_two_that_free_one_job_at_once_both_count(
    store: PostgresStore, other: PostgresStore
) -> None:
    for _ in range(20):
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        last = a_job(after=(first.id, second.id))
        await store.enqueue([last])
        await asyncio.gather(
            store.settle([a_settlement(first)]), other.settle([a_settlement(second)])
        )
        assert (await stored_job(store, last)).blocked_by == 0
        await store.cancel([last.id], "done", NOW)


async def test_whoever_begins_to_wait_for_a_job_that_ends_is_not_forgotten(
    store: PostgresStore, other: PostgresStore
) -> None:
    for number in range(40):
        first = await run_job(store, a_job())
        last = a_job(after=(first.id,))
        outcome = FAILURE if number % 2 else None
        word = a_settlement(first, outcome) if outcome else a_settlement(first)
        await asyncio.gather(store.settle([word]), other.enqueue([last]))
        answer = await stored_job(store, last)
        if outcome:
            assert answer.state is JobState.CANCELLED
        else:
            assert (answer.state, answer.blocked_by) == (JobState.WAITING, 0)
            await store.cancel([last.id], "done", NOW)


async def test_unique_keys_in_any_order(store: PostgresStore, other: PostgresStore) -> None:
    keys = [f"key-{number}" for number in range(30)]
    created: Counter[str] = Counter()

    async def race(number: int) -> None:
        one = (store, other)[number % 2]
        for _ in range(5):
            jobs = [a_job(unique=key) for key in random.sample(keys, len(keys))]
            answers = await one.enqueue(jobs)
            created.update(
                job.unique or ""
                for job, answer in zip(jobs, answers, strict=True)
                if answer.created
            )

    await in_threads(race)
    assert created == Counter(keys)


async def test_several_planners_plan_each_occurrence_once(
    store: PostgresStore, other: PostgresStore
) -> None:
    schedules = [a_schedule() for _ in range(10)]
    for schedule in schedules:
        await add_planned(store, schedule)

    async def plan(number: int) -> None:
        one = (store, other)[number % 2]
        for hour in range(1, 6):
            mixed = random.sample(schedules, len(schedules))
            plans = [a_plan(one_, an_occurrence(one_, NOW + hour * HOUR)) for one_ in mixed]
            assert all(await one.apply_plans(plans))

    await in_threads(plan)
    for schedule in schedules:
        page = await store.jobs(JobFilter(schedule_id=schedule.id, limit=100))
        assert len(page.items) == len({job.occurrence for job in page.items}) == 5
        rows = await store.dispositions(schedule.id, NOW, NOW + 9 * HOUR)
        assert {row.job_id for row in rows} == set(ids_of(page.items))


async def test_several_claimants_keep_an_overlap_rule(
    store: PostgresStore, other: PostgresStore
) -> None:
    schedules = [a_schedule(overlap=Overlap.WAIT) for _ in range(4)]
    for schedule in schedules:
        jobs = [an_occurrence(schedule, NOW - number * SECOND) for number in range(6)]
        await add_planned(store, schedule, *jobs)
    busy: Counter[str] = Counter()
    ran: Counter[str] = Counter()

    async def work(number: int) -> None:
        one, worker = (store, other)[number % 2], WorkerId(f"worker-{number}")
        while sum(ran.values()) < 24:
            for job in (await one.claim(a_request(worker=worker, limit=5))).jobs:
                busy[job.schedule_id or ""] += 1
                assert busy[job.schedule_id or ""] == 1, "two jobs of a schedule ran at once"
                await asyncio.sleep(0)
                busy[job.schedule_id or ""] -= 1
                assert list(await one.settle([a_settlement(job)])) == [True]
                ran[job.id] += 1

    async with asyncio.timeout(30):
        await in_threads(work)
    assert set(ran.values()) == {1}


async def test_a_pause_is_not_missed_by_jobs_planned_at_the_same_time(
    store: PostgresStore, other: PostgresStore
) -> None:
    for _ in range(10):
        schedule = a_schedule()
        await add_planned(store, schedule)
        paused = replace(schedule, status=ScheduleStatus.PAUSED, version=2)
        job = an_occurrence(schedule, NOW)
        by_hand = a_job(schedule_id=schedule.id)
        await asyncio.gather(
            store.apply_plans([a_plan(schedule, job)]),
            other.update_schedule(paused, None, NOW),
            other.enqueue([by_hand]),
        )
        assert await claim_jobs(store) == ()


async def test_of_several_that_start_a_carried_job_one_gets_it(
    store: PostgresStore, other: PostgresStore
) -> None:
    await store.enqueue([a_job() for _ in range(100)])
    jobs = await claim_jobs(store, worker=carrier_id("1"))
    leases = [(job.id, job.token) for job in jobs]
    workers = [WorkerId(f"worker-{number}") for number in range(4)]
    # Each asks twice, as one does that missed the answer.
    answers = await asyncio.gather(
        *(
            (store, other)[number % 2].start(worker, random.sample(leases, len(leases)), NOW)
            for number, worker in enumerate(workers * 2)
        )
    )
    got = [{job.id for job in answer if job is not None} for answer in answers]
    assert got[:4] == got[4:], "who repeats hears the same"
    assert sorted(id for ids in got[:4] for id in ids) == ids_of(jobs)
    for worker, ids in zip(workers, got[:4], strict=True):
        assert {held_lease.job_id for held_lease in await store.held_leases(worker)} == ids


async def test_what_several_senders_send_at_once_is_stored_once(
    store: PostgresStore, other: PostgresStore
) -> None:
    senders = [await run_job(store, a_job()) for _ in range(8)]
    made = {sender.id: tuple(a_job(due_at=NOW + HOUR) for _ in range(50)) for sender in senders}

    async def send(number: int) -> None:
        one, sender = (store, other)[number % 2], senders[number % 8]
        sent = SentJobs(sender=sender.id, token=sender.token, jobs=made[sender.id])
        assert list(await one.enqueue_from([sent])) == [True]

    await asyncio.gather(*(send(number) for number in range(32)))
    assert (await store.stats(NOW)).jobs["waiting"] == 8 * 50


VICTIM = """
    SELECT count(pg_terminate_backend(pid))
    FROM (SELECT pid FROM pg_stat_activity
          WHERE application_name LIKE 'onbeat %' AND datname = current_database()
          ORDER BY random() LIMIT 1) AS victim
"""


class Patient:
    """Repeats what was not answered, and counts what was."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.answered = 0

    async def ask(self, verb: Callable[..., Any], *asked: Any) -> Any:
        while True:
            try:
                result = await verb(*asked)
            except Unavailable:
                await asyncio.sleep(random.random() * 0.02)
            else:
                self.answered += 1
                return result

    async def enqueue(self, jobs: list[Job]) -> None:
        for job in jobs:
            await self.ask(self.store.enqueue, [job])

    async def work(self, worker: WorkerId, count: int) -> None:
        request = a_request(worker=worker, limit=9)
        while (await self.ask(self.store.stats, NOW)).jobs["succeeded"] < count:
            claim = await self.ask(self.store.claim, request)
            # An answer that was lost leaves leases that nobody knows of: they are handed back.
            strays = await self.ask(self.store.abandoned_jobs, [worker], NOW, 100)
            for job in {one.id: one for one in (*claim.jobs, *strays)}.values():
                await self.ask(self.store.settle, [a_settlement(job)])

    async def kill(self, database: str) -> None:
        """The next one goes when callers have got on, however slow the machine is."""
        db = await asyncpg.connect(database)
        try:
            while True:
                assert await db.fetchval(VICTIM) <= 1

                def went_on(mark: int = self.answered + 15) -> bool:
                    return self.answered >= mark

                await eventually(went_on, "callers get on")
        finally:
            db.terminate()


async def test_terminated_backends_lose_nothing(store: PostgresStore, database: str) -> None:
    """Callers hear `Unavailable` and repeat; what was stored before is found stored."""
    jobs = [a_job() for _ in range(300)]
    patient = Patient(store)
    killer = asyncio.ensure_future(patient.kill(database))
    async with asyncio.timeout(50):
        await asyncio.gather(*(patient.enqueue(jobs[number::4]) for number in range(4)))
        await asyncio.gather(*(patient.work(WorkerId(name), len(jobs)) for name in ("a", "b")))
    killer.cancel()
    await asyncio.wait([killer])
    assert killer.cancelled(), "it went on to the end"
    states = {(await patient.ask(store.job, job.id)).state for job in jobs}
    assert states == {JobState.SUCCEEDED}
    assert {len(await store.attempts(job.id)) for job in jobs} == {1}


async def test_a_refused_operation_leaves_its_neighbours_alone(store: PostgresStore) -> None:
    jobs = [a_job() for _ in range(20)]
    orphan = a_job(after=("0190ffff-0000-7000-8000-000000000000",))
    answers = await asyncio.gather(
        *(store.enqueue([job]) for job in (*jobs[:10], orphan, *jobs[10:])),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [Invalid]
    assert [await store.job(job.id) for job in jobs] == jobs
    assert await store.job(orphan.id) is None


async def test_a_cancelled_caller_does_not_hold_up_others(store: PostgresStore) -> None:
    job = a_job()
    lost = asyncio.ensure_future(store.enqueue([a_job()]))
    await asyncio.sleep(0)
    lost.cancel()
    assert [answer.created for answer in await store.enqueue([job])] == [True]


async def test_closing_finishes_what_was_asked_before(store: PostgresStore) -> None:
    jobs = [a_job() for _ in range(500)]
    writes = [asyncio.ensure_future(store.enqueue([job])) for job in jobs]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*writes)
    assert all(answer.created for (answer,) in answers)
    await store.open()
    assert len((await store.claim(a_request(limit=1_000))).jobs) == 500
