"""Several processes on one database, as stores that share nothing but that."""

import asyncio
from collections import Counter

from conditions import PATIENCE
from onbeat.model.errors import Conflict
from onbeat.model.ids import WorkerId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.page import JobFilter
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint
from onbeat.stores.mysql.store import MysqlStore
from onbeat.testing.build import HOUR, NOW, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.races import in_threads
from onbeat.testing.store_contract.steps import a_settlement, add_planned, claim_jobs, stored_job

JOBS = 300


async def test_a_change_elsewhere_is_heard(store: MysqlStore, other: MysqlStore) -> None:
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(hint: Hint) -> None:
        if hint is Hint.JOBS:
            loop.call_soon_threadsafe(heard.set)

    stop = store.listen(told)
    async with asyncio.timeout(PATIENCE):
        while not heard.is_set():
            # What changes before the first look counts as seen.
            await other.enqueue([a_job()])
            await asyncio.wait([asyncio.ensure_future(heard.wait())], timeout=0.1)
    stop()


async def test_claims_settlements_and_cancels_of_the_same_jobs_agree(
    store: MysqlStore, other: MysqlStore
) -> None:
    jobs = [a_job() for _ in range(JOBS)]
    await store.enqueue(jobs)
    leases: list[Job] = []
    won: Counter[str] = Counter()

    async def act(number: int) -> None:
        mine = store if number % 2 else other
        for step in range(20):
            if number < 2:
                await mine.cancel([job.id for job in jobs[step::20]], "by hand", NOW)
                continue
            taken = await claim_jobs(mine, limit=10, worker=WorkerId(f"worker-{number}"))
            leases.extend(taken)
            settlements = [a_settlement(job) for job in [*taken, *leases[-5:]]]
            answers = await mine.settle(settlements)
            won.update(
                {
                    settlement.job.id
                    for settlement, ok in zip(settlements, answers, strict=True)
                    if ok
                }
            )

    await in_threads(act)
    assert len({(job.id, job.token) for job in leases}) == len(leases)
    for job in jobs:
        now = await stored_job(store, job)
        assert now.state in FINAL_STATES
        assert (now.state is JobState.SUCCEEDED) == (won[job.id] > 0)
        assert len(await store.attempts(job.id)) == (now.state is JobState.SUCCEEDED)


async def test_one_key_has_one_live_job(store: MysqlStore, other: MysqlStore) -> None:
    keys = [f"key {number}" for number in range(20)]

    async def act(number: int) -> list[str]:
        mine = store if number % 2 else other
        # Each takes the keys in an order of its own: those locked crosswise are tried again.
        turned = keys[number:] + keys[:number]
        answers = await mine.enqueue([a_job(unique=key) for key in turned])
        return [answer.id for answer in answers if answer.created]

    created = [id for ids in await in_threads(act) for id in ids]
    assert len(created) == len(keys)
    page = await store.jobs(JobFilter(limit=100))
    assert sorted(job.id for job in page.items) == sorted(created)


async def test_planners_plan_each_occurrence_once(store: MysqlStore, other: MysqlStore) -> None:
    schedules = [a_schedule() for _ in range(10)]
    for schedule in schedules:
        await add_planned(store, schedule)

    async def act(number: int) -> None:
        mine = store if number % 2 else other
        for n in range(1, 6):
            await mine.apply_plans(
                [
                    a_plan(schedule, an_occurrence(schedule, NOW + n * HOUR))
                    for schedule in schedules
                ]
            )

    await in_threads(act)
    for schedule in schedules:
        page = await store.jobs(JobFilter(schedule_id=schedule.id, limit=100))
        assert len({job.occurrence for job in page.items}) == len(page.items) == 5
        result = await store.dispositions(schedule.id, NOW, NOW + 10 * HOUR)
        assert {one.job_id for one in result} == {job.id for job in page.items}


async def test_of_a_schedule_that_waits_one_job_runs(store: MysqlStore, other: MysqlStore) -> None:
    schedule = a_schedule(overlap=Overlap.WAIT)
    jobs = [an_occurrence(schedule, NOW - n * HOUR) for n in range(8)]
    await add_planned(store, schedule, *jobs)

    async def act(number: int) -> int:
        mine = store if number % 2 else other
        done = 0
        for _ in range(12):
            taken = await claim_jobs(mine, worker=WorkerId(f"worker-{number}"))
            assert len(taken) <= 1
            page = await mine.jobs(JobFilter(state=JobState.RUNNING))
            assert len(page.items) <= 1
            done += sum(await mine.settle([a_settlement(job) for job in taken]))
        return done

    done = sum(await in_threads(act))
    while taken := await claim_jobs(store):
        done += sum(await store.settle([a_settlement(job) for job in taken]))
    assert done == len(jobs)


async def test_who_waits_for_many_is_freed_once_all_have_ended(
    store: MysqlStore, other: MysqlStore
) -> None:
    first = [a_job() for _ in range(40)]
    await store.enqueue(first)
    last = a_job("other", after=tuple(job.id for job in first))
    await store.enqueue([last])

    async def act(number: int) -> None:
        mine = store if number % 2 else other
        while taken := await claim_jobs(mine, limit=3, worker=WorkerId(f"worker-{number}")):
            await mine.settle([a_settlement(job) for job in taken])

    await in_threads(act)
    assert (await stored_job(store, last)).blocked_by == 0
    assert len(await claim_jobs(store, lanes=frozenset({"other"}))) == 1


async def test_keys_that_differ_by_a_space_are_two(store: MysqlStore) -> None:
    jobs = [a_job(unique=key) for key in ("key", "key ", "KEY", "kéy", "ke\u0301y")]
    assert all(answer.created for answer in await store.enqueue(jobs))


async def test_of_two_schedules_with_one_key_one_is_added(
    store: MysqlStore, other: MysqlStore
) -> None:
    async def act(number: int) -> bool:
        schedule = a_schedule(key="key")
        try:
            await (store if number % 2 else other).add_schedule(schedule, a_plan(schedule))
        except Conflict:
            return False
        return True

    assert sum(await in_threads(act)) == 1
