"""Fair queues: groups take turns within a priority, independent of their backlogs."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Released
from onbeat.model.queue import NO_LIMITS, GroupDepth, GroupDepths, Rate
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_schedule, an_occurrence
from onbeat.testing.store_contract.races import in_tasks
from onbeat.testing.store_contract.steps import (
    a_request,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    limit,
    slow_jobs,
    wait_for_next,
)

FLOOD = 3_000


async def in_turn(store: Store, count: int, each: int = 1) -> list[str | None]:
    """The groups of the jobs from `count` claims of `each` jobs."""
    given: list[Job] = []
    for _ in range(count):
        given += await claim_jobs(store, limit=each)
    return [job.group for job in given]


def groups_of(jobs: Iterable[Job]) -> Counter[str | None]:
    return Counter(job.group for job in jobs)


def crowd(sizes: dict[str | None, int]) -> list[Job]:
    """Jobs of each group in these numbers; those of the first group are due first."""
    return [
        job
        for number, (group, size) in enumerate(sizes.items())
        for job in slow_jobs(size, group=group, due_at=NOW - HOUR + number * SECOND)
    ]


class TurnContract:
    async def test_groups_take_turns_over_claims_of_one(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 5, "b": 2, "c": 3}))
        assert await in_turn(store, 11) == [*"abc", *"abc", *"ac", *"aa"]

    async def test_groups_are_told_with_their_depths_and_last_turns(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue([*crowd({"a": 5, "b": 2, None: 1}), a_job(group="elsewhere")])
        blocker = a_job(due_at=NOW + HOUR)
        await store.enqueue([blocker, *slow_jobs(2, group="a", after=(blocker.id,), blocked_by=1)])
        await in_turn(store, 4)
        found = await store.group_depths("slow", 100)
        assert found == GroupDepths(
            (
                GroupDepth(group="a", waiting=3, running=2, starts_since=0),
                GroupDepth(group="b", waiting=1, running=1, starts_since=2),
                GroupDepth(group="", running=1, starts_since=1),
            ),
            more=False,
        )
        assert (await store.group_depths("slow", 4)).more is False
        bounded = await store.group_depths("slow", 3)
        assert (bounded.more, sum(one.waiting for one in bounded.groups)) == (True, 3)
        assert await store.group_depths("idle", 4) == GroupDepths((), more=False)

    async def test_groups_have_even_shares_of_a_claim(self, store: Store) -> None:
        await limit(store, fair=True)
        jobs = crowd({"a": 50, "b": 50, "c": 2})
        await store.enqueue(jobs)
        taken = await claim_jobs(store, limit=12)
        assert groups_of(taken) == {"a": 5, "b": 5, "c": 2}
        assert ids_of(taken) == ids_of([*jobs[:5], *jobs[50:55], *jobs[100:]])

    async def test_turns_go_on_from_claim_to_claim(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 50, "b": 50, "c": 50}))
        shares = [groups_of(await claim_jobs(store, limit=4)) for _ in range(3)]
        assert shares == [
            {"a": 2, "b": 1, "c": 1},
            {"a": 1, "b": 2, "c": 1},
            {"a": 1, "b": 1, "c": 2},
        ]

    async def test_without_the_option_order_is_by_due_time(self, store: Store) -> None:
        await limit(store, group_concurrency=50)
        jobs = crowd({"a": 5, "b": 5})
        await store.enqueue(jobs)
        assert ids_of(await claim_jobs(store, limit=7)) == ids_of(jobs[:7])

    async def test_turns_that_are_taken_no_more_leave_nothing(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 9, "b": 9}))
        await claim_jobs(store, limit=1)
        await store.limit_queue("slow", NO_LIMITS)
        assert await in_turn(store, 2) == ["a", "a"]
        await limit(store, fair=True)
        assert await in_turn(store, 2) == ["a", "b"]

    async def test_limits_set_again_keep_the_turns(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 9, "b": 9}))
        await claim_jobs(store, limit=1)
        await limit(store, fair=True, concurrency=9)
        assert await in_turn(store, 2) == ["b", "a"]

    async def test_jobs_without_a_group_take_turns_as_one(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({None: 9, "a": 9}))
        assert await in_turn(store, 4) == [None, "a", None, "a"]
        assert groups_of(await claim_jobs(store, limit=6)) == {None: 3, "a": 3}

    async def test_priority_comes_before_turns(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 3, "b": 3}))
        urgent = slow_jobs(3, group="a", priority=-1)
        await store.enqueue(urgent)
        assert ids_of(await claim_jobs(store, limit=3)) == ids_of(urgent)
        assert await in_turn(store, 3) == ["a", "b", "a"]

    async def test_turns_of_one_priority_are_none_of_another(self, store: Store) -> None:
        await limit(store, fair=True)
        urgent = [job for name in "ab" for job in slow_jobs(3, group=name, priority=-1)]
        await store.enqueue([*urgent, *crowd({"a": 3, "b": 3})])
        assert await in_turn(store, 1) == ["a"]
        assert groups_of(await claim_jobs(store, limit=6)) == {"a": 3, "b": 3}
        assert await in_turn(store, 1) == ["b"]

    async def test_within_a_group_order_holds(self, store: Store) -> None:
        await limit(store, fair=True)
        second, third = slow_jobs(2, group="a")
        (first,) = slow_jobs(1, group="a", due_at=NOW - HOUR)
        await store.enqueue([third, second, first, *slow_jobs(3, group="b")])
        given = [job for _ in range(6) for job in await claim_jobs(store, limit=1)]
        assert ids_of([job for job in given if job.group == "a"]) == ids_of([first, second, third])

    async def test_jobs_of_many_tasks_take_turns_by_group_alone(self, store: Store) -> None:
        await limit(store, fair=True)
        jobs = [
            a_job(task, queue="slow", group=group)
            for group in ("a", "b", None)
            for _ in range(3)
            for task in ("work", "rest")
        ]
        await store.enqueue(jobs)
        both = {"lanes": frozenset({"work", "rest"})}
        for _ in range(2):
            taken = await claim_jobs(store, limit=6, **both)
            assert groups_of(taken) == {"a": 2, "b": 2, None: 2}
        assert groups_of(await claim_jobs(store, limit=9)) == {"a": 1, "b": 1, None: 1}

    async def test_a_queue_keeps_its_place_among_others(self, store: Store) -> None:
        """Its oldest job decides the place of the queue; turns decide which job takes it."""
        await limit(store, fair=True)
        flood = slow_jobs(4, group="a", due_at=NOW - HOUR)
        fresh = slow_jobs(2, group="b")
        others = [a_job(due_at=NOW - MINUTE) for _ in range(2)]
        await store.enqueue([*flood, *fresh, *others])
        taken = await claim_jobs(store, limit=6)
        assert ids_of(taken) == ids_of([*flood, *fresh])
        assert ids_of(await claim_jobs(store)) == ids_of(others)

    async def test_a_younger_queue_waits_for_others(self, store: Store) -> None:
        await limit(store, fair=True)
        others = [a_job(due_at=NOW - MINUTE) for _ in range(3)]
        await store.enqueue([*others, *slow_jobs(3, group="a"), *slow_jobs(3, group="b")])
        assert ids_of(await claim_jobs(store, limit=3)) == ids_of(others)
        assert await in_turn(store, 2) == ["a", "b"]

    async def test_two_fair_queues_know_their_own_turns(self, store: Store) -> None:
        await limit(store, "x", fair=True)
        await limit(store, "y", fair=True)
        for queue in ("x", "y"):
            due = {"due_at": NOW - HOUR} if queue == "x" else {}
            await store.enqueue(
                [job for name in "ab" for job in slow_jobs(3, queue=queue, group=name, **due)]
            )
        assert await in_turn(store, 12) == [*"ababab", *"ababab"]

    async def test_who_had_nothing_to_do_has_saved_up_no_turns(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 30, "b": 30}))
        await claim_jobs(store, limit=20)
        await store.enqueue(slow_jobs(9, group="c"))
        assert await in_turn(store, 7) == [*"cab", *"cab", "c"]

    async def test_a_flood_delays_no_other_group_beyond_its_turn(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(slow_jobs(FLOOD, group="flood", due_at=NOW - HOUR))
        for _ in range(5):
            await claim_jobs(store, limit=10)
            await store.enqueue([*slow_jobs(1, group="b"), *slow_jobs(1)])
            assert groups_of(await claim_jobs(store, limit=3)) == {"flood": 1, "b": 1, None: 1}

    @pytest.mark.parametrize("each", [1, 10, 100])
    async def test_between_two_jobs_of_a_group_each_other_has_one_at_most(
        self, store: Store, each: int
    ) -> None:
        await limit(store, fair=True)
        names = [f"g{number}" for number in range(10)]
        sizes: dict[str | None, int] = {"flood": 300, **dict.fromkeys(names, 9)}
        await store.enqueue(crowd(sizes))
        left = Counter(sizes)
        given: Counter[str | None] = Counter()
        for _ in range(200 // each):
            given.update(groups_of(await claim_jobs(store, limit=each)))
            waiting = [group for group, size in left.items() if given[group] < size]
            shares = [given[group] for group in waiting]
            assert max(shares) - min(shares) <= 1
        assert given.total() == 200

    async def test_a_group_that_is_full_is_left_out(self, store: Store) -> None:
        await limit(store, fair=True, group_concurrency=2)
        await store.enqueue(crowd({"a": 9, "b": 9, "c": 1}))
        assert groups_of(await claim_jobs(store, limit=3)) == {"a": 1, "b": 1, "c": 1}
        assert groups_of(await claim_jobs(store)) == {"a": 1, "b": 1}
        assert await claim_jobs(store) == ()

    async def test_a_group_that_was_full_is_next(self, store: Store) -> None:
        await limit(store, fair=True, group_concurrency=1)
        await store.enqueue(crowd({"a": 9, "b": 9}))
        first, second = await claim_jobs(store)
        await end(store, first)
        assert await in_turn(store, 1) == ["a"]
        await end(store, second)
        assert await in_turn(store, 2) == ["b"]

    async def test_the_limit_of_the_queue_is_shared_by_turns(self, store: Store) -> None:
        await limit(store, fair=True, concurrency=4)
        await store.enqueue(crowd({"a": 9, "b": 9, "c": 1}))
        taken = await claim_jobs(store)
        assert groups_of(taken) == {"a": 2, "b": 1, "c": 1}
        for job in taken[:2]:
            await end(store, job)
        assert groups_of(await claim_jobs(store)) == {"a": 1, "b": 1}

    async def test_rates_hold_with_turns(self, store: Store) -> None:
        await limit(store, fair=True, rate=Rate(5, HOUR), group_rate=Rate(2, MINUTE))
        await store.enqueue(crowd({"a": 9, "b": 9, "c": 1}))
        assert groups_of(await claim_jobs(store, limit=4)) == {"a": 2, "b": 1, "c": 1}
        assert groups_of(await claim_jobs(store)) == {"b": 1}
        assert await claim_jobs(store) == ()

    async def test_when_the_rate_of_a_group_lets_the_next_go_is_told(self, store: Store) -> None:
        await limit(store, fair=True, group_rate=Rate(2, MINUTE))
        await store.enqueue(crowd({"a": 9, "b": 9}))
        assert groups_of(await claim_jobs(store)) == {"a": 2, "b": 2}
        assert await wait_for_next(store) == NOW + MINUTE / 2

    async def test_a_later_job_is_told_as_the_next(self, store: Store) -> None:
        await limit(store, fair=True)
        jobs = [*slow_jobs(2, group="a"), *slow_jobs(1, group="a", due_at=NOW + HOUR)]
        await store.enqueue(jobs)
        answer = await store.claim(a_request())
        assert (ids_of(answer.jobs), answer.next_due_at) == (ids_of(jobs[:2]), NOW + HOUR)

    async def test_all_that_is_due_is_given_out_whatever_the_shares(self, store: Store) -> None:
        await limit(store, fair=True)
        sizes: dict[str | None, int] = {"flood": 300, **{f"g{number}": 1 for number in range(80)}}
        await store.enqueue(crowd(sizes))
        assert groups_of(await claim_jobs(store, limit=200)) == {**sizes, "flood": 120}
        assert len(await claim_jobs(store, limit=1_000)) == 180

    async def test_what_may_not_start_fills_up_no_claim(self, store: Store) -> None:
        """Groups with room for one job do not hide the room of another group."""
        await limit(store, fair=True, group_concurrency=30)
        names = [f"g{number}" for number in range(20)]
        sizes: dict[str | None, int] = {**dict.fromkeys(names, 40)}
        await store.enqueue(crowd(sizes))
        assert len(await claim_jobs(store, limit=20 * 29)) == 20 * 29
        await store.enqueue(slow_jobs(90, group="last"))
        expected = {**dict.fromkeys(names, 1), "last": 30}
        assert groups_of(await claim_jobs(store, limit=60)) == expected

    async def test_many_groups_are_served_in_turn(self, store: Store) -> None:
        await limit(store, fair=True)
        names = [f"g{number:03}" for number in range(150)]
        await store.enqueue([job for name in names for job in slow_jobs(2, group=name)])
        given = [job.group for _ in range(10) for job in await claim_jobs(store, limit=15)]
        assert sorted(map(str, given)) == names
        given = [job.group for _ in range(10) for job in await claim_jobs(store, limit=15)]
        assert sorted(map(str, given)) == names

    async def test_groups_are_told_apart_by_every_character(self, store: Store) -> None:
        await limit(store, fair=True)
        names = ["a", "A", "a ", "ä", "a\u0308", "\U0001f600", "\U0001f601", "x" * 200]
        await store.enqueue([job for name in names for job in slow_jobs(3, group=name)])
        for _ in range(2):
            given = await claim_jobs(store, limit=len(names))
            assert groups_of(given) == dict.fromkeys(names, 1)

    async def test_turns_are_kept_after_close_and_open(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 9, "b": 9, "c": 9}))
        assert await in_turn(store, 1) == ["a"]
        await store.close()
        await store.open()
        assert await in_turn(store, 3) == ["b", "c", "a"]

    async def test_a_job_that_overlap_puts_off_takes_no_turn(self, store: Store) -> None:
        await limit(store, fair=True)
        schedule = a_schedule(overlap=Overlap.WAIT, queue="slow")
        jobs = [an_occurrence(schedule, NOW - number * SECOND, group="a") for number in (2, 1)]
        await add_planned(store, schedule, *jobs)
        assert ids_of(await claim_jobs(store)) == [jobs[0].id]
        await store.enqueue([*slow_jobs(1, group="b"), *slow_jobs(2, group="a")])
        assert sorted(map(str, await in_turn(store, 3))) == ["a", "a", "b"]

    async def test_a_job_that_was_handed_back_waits_for_its_turn(self, store: Store) -> None:
        await limit(store, fair=True)
        await store.enqueue(crowd({"a": 2, "b": 2}))
        (first,) = await claim_jobs(store, limit=1)
        await end(store, first, Released())
        assert await in_turn(store, 4) == ["b", "a", "b", "a"]

    async def test_claimants_beside_each_other_share_the_turns(self, store: Store) -> None:
        await limit(store, fair=True)
        sizes: dict[str | None, int] = {"flood": 400, "a": 20, "b": 20, "c": 20}
        await store.enqueue(crowd(sizes))
        given: list[Sequence[Job]] = []

        async def act(number: int) -> None:
            worker = WorkerId(f"worker-{number}")
            while sum(map(len, given)) < 80:
                given.append(await claim_jobs(store, worker=worker, limit=4))

        await in_tasks(act)
        shares = groups_of(job for jobs in given for job in jobs)
        assert min(shares[name] for name in "abc") == 20
        assert shares.total() == len({job.id for jobs in given for job in jobs})
