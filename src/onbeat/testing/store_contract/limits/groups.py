"""Limits by group: jobs that they hold back, and independence of groups."""

from collections import Counter
from collections.abc import Iterable

from onbeat.model.job import Job
from onbeat.model.outcome import Released
from onbeat.model.queue import Limits, Rate
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND
from onbeat.testing.store_contract.steps import (
    a_request,
    claim_jobs,
    end,
    ids_of,
    limit,
    slow_jobs,
    wait_for_next,
)

GROUPS = [f"group-{number}" for number in range(300)]


def groups_of(jobs: Iterable[Job]) -> Counter[str | None]:
    return Counter(job.group for job in jobs)


class GroupContract:
    async def test_each_group_has_its_own_places(self, store: Store) -> None:
        await limit(store, group_concurrency=2)
        await store.enqueue([*slow_jobs(5, group="a"), *slow_jobs(5, group="b")])
        assert groups_of(await claim_jobs(store)) == {"a": 2, "b": 2}
        assert await claim_jobs(store) == ()

    async def test_the_end_of_an_attempt_frees_a_place_of_its_group(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        await store.enqueue([*slow_jobs(2, group="a"), *slow_jobs(2, group="b")])
        first, _ = await claim_jobs(store)
        await end(store, first)
        assert groups_of(await claim_jobs(store)) == {"a": 1}

    async def test_jobs_without_a_group_are_in_none(self, store: Store) -> None:
        await limit(store, group_concurrency=1, group_rate=Rate(1, HOUR))
        await store.enqueue([*slow_jobs(5), *slow_jobs(2, group="a")])
        assert groups_of(await claim_jobs(store)) == {None: 5, "a": 1}

    async def test_groups_are_told_apart_by_every_character(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        names = ["a", "A", "a ", "ä", "a\u0308", "\U0001f600", "\U0001f601", "x" * 200]
        await store.enqueue([job for name in names for job in slow_jobs(2, group=name)])
        assert groups_of(await claim_jobs(store)) == dict.fromkeys(names, 1)

    async def test_a_group_of_one_queue_is_not_that_of_another(self, store: Store) -> None:
        await limit(store, "a", group_concurrency=1)
        await limit(store, "b", group_concurrency=1)
        await store.enqueue(
            [job for queue in ("a", "b", "c") for job in slow_jobs(2, queue=queue, group="same")]
        )
        queues = Counter(job.queue for job in await claim_jobs(store))
        assert queues == {"a": 1, "b": 1, "c": 2}

    async def test_groups_of_a_queue_that_limits_none_share_what_it_has(self, store: Store) -> None:
        await limit(store, concurrency=3)
        jobs = [*slow_jobs(2, group="a"), *slow_jobs(2, group="b")]
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store)) == ids_of(jobs[:3])

    async def test_what_runs_in_a_group_counts_although_the_claimant_cannot_run_it(
        self, store: Store
    ) -> None:
        await limit(store, group_concurrency=2)
        await store.enqueue(slow_jobs(1, task="rest", group="a"))
        await claim_jobs(store, lanes=frozenset({"rest"}))
        await store.enqueue([*slow_jobs(3, group="a"), *slow_jobs(3, group="b")])
        assert groups_of(await claim_jobs(store)) == {"a": 1, "b": 2}

    async def test_the_limit_of_the_queue_holds_over_all_groups(self, store: Store) -> None:
        await limit(store, concurrency=3, group_concurrency=2)
        await store.enqueue([job for name in "abc" for job in slow_jobs(3, group=name)])
        assert groups_of(await claim_jobs(store)) == {"a": 2, "b": 1}

    async def test_each_group_has_its_own_rate(self, store: Store) -> None:
        await limit(store, group_rate=Rate(2, MINUTE))
        await store.enqueue([*slow_jobs(5, group="a"), *slow_jobs(1, group="b")])
        assert groups_of(await claim_jobs(store)) == {"a": 2, "b": 1}
        await store.enqueue(slow_jobs(5, group="b"))
        assert groups_of(await claim_jobs(store)) == {"b": 1}
        assert groups_of(await claim_jobs(store, now=NOW + MINUTE / 2)) == {"a": 1, "b": 1}

    async def test_rates_of_queue_and_group_hold_together(self, store: Store) -> None:
        await limit(store, rate=Rate(3, HOUR), group_rate=Rate(2, HOUR))
        await store.enqueue([*slow_jobs(5, group="a"), *slow_jobs(5, group="b")])
        assert groups_of(await claim_jobs(store)) == {"a": 2, "b": 1}
        assert await claim_jobs(store) == ()

    async def test_an_end_gives_no_start_back_to_its_group(self, store: Store) -> None:
        await limit(store, group_concurrency=1, group_rate=Rate(2, HOUR))
        await store.enqueue(slow_jobs(5, group="a"))
        for _ in range(2):
            (job,) = await claim_jobs(store)
            await end(store, job, Released())
        assert await claim_jobs(store) == ()

    async def test_when_the_rate_of_a_group_lets_the_next_go_is_told(self, store: Store) -> None:
        await limit(store, group_rate=Rate(2, MINUTE))
        await store.enqueue(slow_jobs(5, group="a"))
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + MINUTE / 2

    async def test_of_the_rates_of_many_groups_the_soonest_is_told(self, store: Store) -> None:
        await limit(store, group_rate=Rate(1, MINUTE))
        await store.enqueue(slow_jobs(2, group="a"))
        await claim_jobs(store, now=NOW - MINUTE / 2, worker="early")
        await store.enqueue([*slow_jobs(2, group="b"), *slow_jobs(2, group="c")])
        await claim_jobs(store)
        assert await wait_for_next(store) == NOW + MINUTE

    async def test_where_only_the_end_of_a_job_of_its_group_helps_no_time_is_told(
        self, store: Store
    ) -> None:
        await limit(store, group_concurrency=1)
        await store.enqueue([*slow_jobs(2, group="a"), *slow_jobs(2, group="b")])
        await claim_jobs(store)
        assert (await store.claim(a_request())).next_due_at is None

    async def test_a_later_job_of_a_group_is_told_as_the_next(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        await store.enqueue([*slow_jobs(1, group="a"), *slow_jobs(1, group="b", due_at=NOW + HOUR)])
        assert (await store.claim(a_request())).next_due_at == NOW + HOUR

    async def test_order_holds_over_groups(self, store: Store) -> None:
        await limit(store, group_concurrency=3)
        third = slow_jobs(1, group="a")
        first = slow_jobs(1, group="b", priority=-1)
        fourth = slow_jobs(1, priority=1, due_at=NOW - HOUR, group="c")
        second = slow_jobs(1, due_at=NOW - SECOND)
        await store.enqueue([*fourth, *third, *second, *first])
        assert ids_of(await claim_jobs(store)) == ids_of([*first, *second, *third, *fourth])

    async def test_order_holds_over_groups_when_the_limit_cuts(self, store: Store) -> None:
        await limit(store, group_concurrency=2)
        jobs = [
            job
            for number in range(6)
            for job in slow_jobs(1, due_at=NOW - (9 - number) * SECOND, group=f"g{number % 2}")
        ]
        await store.enqueue(jobs[::-1])
        assert ids_of(await claim_jobs(store, limit=3)) == ids_of(jobs[:3])

    async def test_within_a_group_order_holds(self, store: Store) -> None:
        await limit(store, group_concurrency=2)
        second, first = slow_jobs(2, group="a", due_at=NOW - HOUR)[::-1]
        urgent = slow_jobs(1, group="a", priority=-1)
        await store.enqueue([second, first, *urgent])
        assert ids_of(await claim_jobs(store)) == [urgent[0].id, first.id]

    async def test_an_exhausted_group_is_not_in_the_way_of_others(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        crowd = slow_jobs(3_000, group="a", due_at=NOW - HOUR)
        last = slow_jobs(1, group="b")
        await store.enqueue([*crowd, *last])
        assert ids_of(await claim_jobs(store, limit=2)) == [crowd[0].id, last[0].id]

    async def test_a_group_whose_rate_is_used_up_is_not_in_the_way_of_others(
        self, store: Store
    ) -> None:
        await limit(store, group_rate=Rate(1, HOUR))
        await store.enqueue(slow_jobs(3_000, group="a", due_at=NOW - HOUR))
        await claim_jobs(store)
        last = slow_jobs(1, group="b", priority=9)
        await store.enqueue(last)
        assert ids_of(await claim_jobs(store, limit=1)) == ids_of(last)

    async def test_exhausted_groups_are_not_in_the_way_of_jobs_in_none(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        crowd = [job for name in GROUPS for job in slow_jobs(5, group=name, due_at=NOW - HOUR)]
        await store.enqueue(crowd)
        await claim_jobs(store, limit=1_000)
        (last,) = slow_jobs(1)
        await store.enqueue([last])
        assert ids_of(await claim_jobs(store, limit=1)) == [last.id]

    async def test_many_groups_are_served_in_one_claim(self, store: Store) -> None:
        await limit(store, group_concurrency=2)
        await store.enqueue([job for name in GROUPS for job in slow_jobs(4, group=name)])
        assert groups_of(await claim_jobs(store, limit=1_000)) == dict.fromkeys(GROUPS, 2)
        assert await claim_jobs(store, limit=1_000) == ()

    async def test_what_a_claimant_cannot_run_is_not_in_the_way_of_its_group(
        self, store: Store
    ) -> None:
        await limit(store, group_concurrency=1)
        await store.enqueue(slow_jobs(1_000, task="unknown", group="a", due_at=NOW - HOUR))
        last = slow_jobs(1, group="a")
        await store.enqueue(last)
        assert ids_of(await claim_jobs(store, limit=1)) == ids_of(last)

    async def test_groups_that_come_to_be_limited_while_their_jobs_run_count(
        self, store: Store
    ) -> None:
        await store.enqueue([*slow_jobs(5, group="a"), *slow_jobs(5, group="b")])
        await claim_jobs(store, limit=2)
        await limit(store, group_concurrency=3)
        assert groups_of(await claim_jobs(store)) == {"a": 1, "b": 3}

    async def test_groups_that_are_limited_no_more_hold_nothing_back(self, store: Store) -> None:
        await limit(store, group_concurrency=1)
        await store.enqueue([*slow_jobs(5, group="a"), *slow_jobs(5, group="b")])
        await claim_jobs(store)
        await store.limit_queue("slow", Limits(concurrency=5))
        assert groups_of(await claim_jobs(store)) == {"a": 3}

    async def test_a_new_rate_of_groups_holds_at_once(self, store: Store) -> None:
        await limit(store, rate=Rate(5, HOUR), group_rate=Rate(1, HOUR))
        await store.enqueue(slow_jobs(9, group="a"))
        await claim_jobs(store)
        await limit(store, rate=Rate(5, HOUR), group_rate=Rate(3, HOUR))
        assert groups_of(await claim_jobs(store)) == {"a": 3}
        await limit(store, rate=Rate(5, HOUR))
        assert groups_of(await claim_jobs(store)) == {"a": 1}
