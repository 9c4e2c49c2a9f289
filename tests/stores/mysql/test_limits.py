"""Limits over several processes, and what counting within them reads and locks."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.queue import Limits, Rate
from onbeat.rules.fairness import KEPT
from onbeat.stores.mysql import claim, ready_lists
from onbeat.stores.mysql.limits import BUSY, take_admitted
from onbeat.stores.mysql.start import ClaimTarget
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.sql.values import micros
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job
from onbeat.testing.store_contract.races import in_threads
from onbeat.testing.store_contract.steps import (
    a_request,
    a_settlement,
    claim_jobs,
    ids_of,
    limit,
    slow_jobs,
)
from stores.mysql.server import execute
from stores.mysql.test_claims import reads, session

JOBS = 2_000


async def test_limits_hold_over_processes(store: MysqlStore, other: MysqlStore) -> None:
    await limit(store, concurrency=3, group_concurrency=2)
    jobs = [job for name in "abc" for job in slow_jobs(20, group=name)]
    await store.enqueue(jobs)
    ended: set[str] = set()

    async def act(number: int) -> None:
        mine = store if number % 2 else other
        for _ in range(10):
            taken = await claim_jobs(mine, worker=WorkerId(f"worker-{number}"))
            assert len(taken) <= 3
            (queue,) = await mine.queues(NOW)
            assert queue.running <= 3
            assert all(await mine.settle([a_settlement(job) for job in taken]))
            ended.update(ids_of(taken))

    await in_threads(act)
    while taken := await claim_jobs(store):
        await store.settle([a_settlement(job) for job in taken])
        ended.update(ids_of(taken))
    assert ended == set(ids_of(jobs))


async def test_a_queue_in_which_another_counts_is_left_out_for_a_moment(
    store: MysqlStore, dsn: str
) -> None:
    await limit(store, concurrency=3)
    slow, quick = slow_jobs(3), a_job()
    await store.enqueue([*slow, quick])
    async with session(dsn) as frozen:
        result = await ready_lists.find_ready_lists(frozen, ())
        wanted = ClaimTarget(
            request=a_request(limit=1),
            ready_lists=[line for line in result if line.queue == "slow"],
            limit=1,
            limited={"slow": Limits(concurrency=3)},
        )
        bite = await take_admitted(frozen, wanted)
        assert ids_of(bite.jobs) == ids_of(slow[:1])
        answer = await store.claim(a_request())
        assert ids_of(answer.jobs) == [quick.id]
        assert answer.next_due_at == NOW + BUSY
    assert ids_of(await claim_jobs(store)) == ids_of(slow)


async def test_a_job_that_another_holds_is_passed_over_for_a_moment(
    store: MysqlStore, dsn: str
) -> None:
    await limit(store, concurrency=1)
    first, second = slow_jobs(2)
    await store.enqueue([first, second])
    async with session(dsn) as frozen:
        await frozen.rows("SELECT 1 FROM jobs WHERE id = %s FOR UPDATE", (first.id,))
        answer = await store.claim(a_request())
        assert ids_of(answer.jobs) == [second.id]
    assert await claim_jobs(store) == ()


@pytest.mark.parametrize(
    "limits", [Limits(concurrency=1), Limits(group_concurrency=1), Limits(fair=True)]
)
async def test_a_claim_reads_no_more_when_more_jobs_are_held_back(
    store: MysqlStore, dsn: str, limits: Limits
) -> None:
    await store.limit_queue("slow", limits)

    async def cost() -> int:
        async with session(dsn) as transaction:
            before = await reads(transaction)
            sight = await claim.survey(transaction, micros(NOW), frozenset())
            grouped = [line for line in sight.ready_lists if line.grouped]
            wanted = ClaimTarget(
                request=a_request(limit=10),
                ready_lists=sight.ready_lists,
                limit=10,
                limited={"slow": limits},
                groups=(await ready_lists.find_groups(transaction, grouped, ())).found,
            )
            await take_admitted(transaction, wanted)
            return await reads(transaction) - before

    def crowd(count: int) -> list[Job]:
        return [job for name in (None, "a", "b") for job in slow_jobs(count, group=name)]

    await store.enqueue(crowd(100))
    few = await cost()
    await store.enqueue(crowd(JOBS))
    assert await cost() < few + 50


async def test_turns_that_were_long_ago_are_forgotten(store: MysqlStore, dsn: str) -> None:
    await limit(store, fair=True)
    await store.enqueue([*slow_jobs(1, group="old"), *slow_jobs(3, group="new")])
    await claim_jobs(store, limit=2)

    def renumber(turn: int) -> None:
        execute(dsn, f"UPDATE turns SET turn = {turn} WHERE grp = 'new'")

    def kept() -> list[str]:
        return [group for (group,) in execute(dsn, "SELECT grp FROM turns ORDER BY grp")]

    renumber(KEPT + 9)
    await claim_jobs(store, limit=1)
    assert kept() == ["new", "old"]
    # The first of the next turns is a round number.
    renumber(2 * KEPT - 1)
    await store.enqueue(slow_jobs(2, group="next"))
    assert [job.group for job in await claim_jobs(store, limit=3)] == ["new", "next", "next"]
    assert kept() == ["new", "next"]


async def test_two_stores_share_the_turns(store: MysqlStore, other: MysqlStore) -> None:
    await limit(store, fair=True)
    await store.enqueue([job for name in "abc" for job in slow_jobs(9, group=name)])
    given = [(await claim_jobs(one, limit=1))[0].group for one in (store, other) * 3]
    assert given == [*"abcabc"]


async def test_groups_are_found_wherever_one_looks_first(store: MysqlStore, dsn: str) -> None:
    async def found(*starts: str) -> list[str]:
        async with session(dsn) as transaction:
            all_lines = [
                line for line in await ready_lists.find_ready_lists(transaction, ()) if line.grouped
            ]
            groups = await ready_lists.find_groups(transaction, all_lines, starts)
            again = await ready_lists.find_groups(transaction, all_lines, groups.starts)
            assert heads(again.found) == heads(groups.found)
            return heads(groups.found)

    def heads(groups: Sequence[ready_lists.WaitingGroup]) -> list[str]:
        return sorted(f"{group.line.lane} {group.name} {group.first}" for group in groups)

    assert await found() == []
    names = ["1", "11", "2", "\u00e9", "\U0001f600", *(f"crew {number}" for number in range(200))]
    firsts: list[str] = []
    for task in ("a", "b"):
        for number, name in enumerate(names):
            jobs = [a_job(task, group=name) for _ in range(1 + number % 23)]
            await store.enqueue(jobs)
            firsts.append(f"{task} {name} {jobs[0].id}")
        await store.enqueue([a_job(task)])
    assert await found() == sorted(firsts)
    async with session(dsn) as transaction:
        texts = await transaction.column(
            "SELECT DISTINCT group_line FROM jobs WHERE group_line IS NOT NULL"
        )
    for starts in (texts, texts[::7], [f"{text} gone" for text in texts[::11]], texts[-1:]):
        assert await found(*starts) == sorted(firsts)


async def test_full_buckets_are_pruned(store: MysqlStore, dsn: str) -> None:
    await limit(store, rate=Rate(1, SECOND), group_rate=Rate(1, HOUR))
    await store.enqueue(slow_jobs(1, group="a"))
    await claim_jobs(store)

    async def left_at(age: timedelta) -> list[str]:
        await store.prune(finished_before=NOW + age, failed_before=NOW, limit=10)
        return [group for (group,) in execute(dsn, "SELECT grp FROM meters ORDER BY grp")]

    assert await left_at(timedelta()) == ["", "a"]
    assert await left_at(MINUTE) == ["a"]
    assert await left_at(2 * HOUR) == []
