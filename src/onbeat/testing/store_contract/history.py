"""The history of rates and depths."""

import asyncio
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.job import JobState
from onbeat.model.limits import COUNTED_MAX
from onbeat.model.pulse import Depth, EndedCounts, Gauges, Pulse, SeriesTotals, Totals
from onbeat.model.queue import Limits, Queue
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Store
from onbeat.rules.pulses import FINEST, WHOLE, folded, folded_gauges, slot
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_worker
from onbeat.testing.store_contract.steps import FAILURE, run_and_end, run_job

START = slot(NOW, 60)


def a_pulse(at: datetime = START, source: str = "one", starts: int = 1) -> Pulse:
    totals = Totals(starts, (starts,), (0, starts), (0, 0, starts))
    series = (SeriesTotals("mail ☃", "shop.mail", totals),)
    return Pulse(resolution=FINEST, at=at, source=source, totals=totals, series=series)


async def all_of(store: Store, resolution: int = FINEST) -> list[Pulse]:
    return list(await store.pulses(resolution, START - HOUR, START + HOUR, 1_000))


class PulseContract:
    async def test_pulses_come_back_as_they_were_put_and_the_newest_first(
        self, store: Store
    ) -> None:
        later = [a_pulse(START + seconds * SECOND) for seconds in (20, 10)]
        two = a_pulse(source="two", starts=7)
        assert await store.put_pulses([a_pulse(), *later, two]) == 4
        assert await all_of(store) == [*later, two, a_pulse()]
        assert list(await store.pulses(FINEST, START, START + 10 * SECOND, 1)) == [two]
        (bare,) = await store.pulses(FINEST, START, START + SECOND, 1, series=False)
        assert bare == replace(two, series=())
        assert await store.put_pulses([]) == 0

    async def test_a_pulse_that_is_put_again_changes_nothing(self, store: Store) -> None:
        await store.put_pulses([a_pulse()])
        again = [a_pulse(starts=9), a_pulse(START + 10 * SECOND)]
        assert await store.put_pulses(again) == 1
        assert await all_of(store) == [again[1], a_pulse()]

    async def test_the_first_that_folds_wins(self, store: Store) -> None:
        assert await store.oldest_history(FINEST) is None
        kept = a_pulse(START + MINUTE)
        fine = [a_pulse(), a_pulse(source="two"), a_pulse(START + 50 * SECOND)]
        await store.put_pulses([*fine, kept])
        sample = Gauges(at=START + 5 * SECOND, total=Depth(waiting=1, due=1))
        await store.put_sample(FINEST, sample)
        await store.put_sample(FINEST, replace(sample, at=START + MINUTE))
        assert await store.oldest_history(FINEST) == START
        (row,) = folded(fine, 60)
        await store.fold_history(
            FINEST, START, START + MINUTE, [row], [(60, one) for one in folded_gauges([sample], 60)]
        )
        late = replace(row, totals=Totals(99))
        assert await store.fold_history(FINEST, START, START + MINUTE, [late], []) == 0
        assert await all_of(store, 60) == [row]
        assert await all_of(store) == [kept]
        assert list(await store.samples(60, START, START + HOUR, 9)) == [sample]
        assert await store.oldest_history(FINEST) == START + MINUTE

    async def test_many_that_fold_at_once_make_one_row(self, store: Store) -> None:
        fine = [a_pulse(START + seconds * SECOND) for seconds in range(0, 60, 10)]
        await store.put_pulses(fine)
        rows = folded(fine, 60)
        folds = (store.fold_history(FINEST, START, START + MINUTE, rows, []) for _ in range(5))
        gone = await asyncio.gather(*folds)
        assert sum(gone) == 6
        assert await all_of(store, 60) == rows

    async def test_one_sample_is_kept_for_each_slot(self, store: Store) -> None:
        assert await store.newest_sample(FINEST) is None
        ended = EndedCounts(at=START, took=0.25, jobs={"succeeded": 3})
        depth = Depth(4, 3, 2, 1, START - MINUTE)
        first = Gauges(
            at=START,
            took=0.5,
            total=depth,
            queues={"mail": depth},
            unknown_tasks={"gone": 1},
            dead_letters=2,
            workers=1,
            slots=10,
            ended=ended,
        )
        assert await store.put_sample(FINEST, first)
        assert not await store.put_sample(FINEST, replace(first, at=START + 9 * SECOND, slots=9))
        second = replace(first, at=START + 11 * SECOND)
        assert await store.put_sample(FINEST, second)
        assert list(await store.samples(FINEST, START, START + HOUR, 9)) == [second, first]
        assert list(await store.samples(FINEST, START, START + SECOND, 9)) == [first]
        assert list(await store.samples(FINEST, START, START + HOUR, 1)) == [second]
        assert await store.newest_sample(FINEST) == second

    async def test_samples_are_read_without_their_queues(self, store: Store) -> None:
        deep = Depth(2**62, 2**62, 2**62, 2**62, START - MINUTE)
        names = [f'q{number:03},"queues":' for number in range(50)]
        many = Gauges(at=START, took=0.5, total=deep, queues=dict.fromkeys(names, deep), slots=2)
        none = Gauges(at=START + MINUTE)
        for one in (many, none):
            await store.put_sample(FINEST, one)
        found = await store.samples(FINEST, START, START + HOUR, 9, queues=False)
        assert list(found) == [none, Gauges(at=START, took=0.5, total=deep)]

    async def test_samples_of_one_resolution_do_not_hide_those_of_another(
        self, store: Store
    ) -> None:
        await store.put_sample(FINEST, Gauges(at=START))
        await store.put_sample(WHOLE, Gauges(at=START + MINUTE, slots=7))
        assert await store.newest_sample(FINEST) == Gauges(at=START)
        assert await store.newest_sample(WHOLE) == Gauges(at=START + MINUTE, slots=7)

    async def test_an_empty_store_has_empty_depths(self, store: Store) -> None:
        assert await store.count_depths(NOW, 3) == Gauges(at=NOW)
        assert sum((await store.count_ended(NOW)).jobs.values()) == 0

    async def test_depths_tell_what_stands_in_each_queue(self, store: Store) -> None:
        await store.heartbeat(a_worker(concurrency=4, lanes=("known",)))
        await run_job(store, a_job())
        known = a_job(queue="mail", due_at=NOW - HOUR, target=HandlerTarget(task="known"))
        await store.enqueue([known, a_job(queue="mail", due_at=NOW + HOUR, after=(known.id,))])
        sample = await store.count_depths(NOW, 3)
        mail = Depth(waiting=2, due=1, running=0, blocked=1, oldest_due_at=NOW - HOUR)
        assert sample.queues == {"default": Depth(running=1), "mail": mail}
        assert sample.total == Depth(2, 1, 1, 1, NOW - HOUR)
        assert sum(sample.unknown_tasks.values()) == 1
        assert sample.slots >= 4

    async def test_the_deepest_queues_are_kept_apart(self, store: Store) -> None:
        names = ["a", "b", "c", "d"]
        await store.enqueue([a_job(queue=name) for name in [*names, *names[1:]]])
        sample = await store.count_depths(NOW, 3)
        assert list(sample.queues) == names[1:]
        assert sample.queues_more == 1
        assert sample.total.due == 2 * len(names) - 1

    async def test_ended_jobs_are_counted_by_state(self, store: Store) -> None:
        await run_and_end(store, a_job())
        await run_and_end(store, a_job(), FAILURE)
        ended = await store.count_ended(NOW)
        assert {state: count for state, count in ended.jobs.items() if count} == {
            "succeeded": 1,
            "failed": 1,
        }

    async def test_queues_take_waiting_jobs_as_they_were_sampled(self, store: Store) -> None:
        await run_job(store, a_job(queue="busy"))
        await store.enqueue([a_job(queue="new")])
        await store.limit_queue("slow", Limits(concurrency=3))
        deep = Depth(waiting=50, due=40, running=9, oldest_due_at=NOW - HOUR)
        sampled = Gauges(at=NOW, total=deep, queues={"busy": deep}, unknown_tasks={"gone": 5})
        assert list(await store.queues(NOW, sampled)) == [
            Queue(name="busy", waiting=50, due=40, running=1, oldest_due_at=NOW - HOUR),
            Queue(name="slow", limits=Limits(concurrency=3)),
        ]
        stats = await store.stats(NOW, None, sampled)
        assert (stats.jobs["waiting"], stats.jobs["running"]) == (50, 1)
        assert (stats.oldest_due_seconds, stats.unknown_tasks) == (3_600.0, {"gone": 5})

    async def test_stats_take_ended_jobs_as_they_are_given(self, store: Store) -> None:
        await run_and_end(store, a_job())
        await store.enqueue([a_job()])
        counts = (await store.stats(NOW, {"succeeded": COUNTED_MAX})).jobs
        assert counts[JobState.SUCCEEDED] == COUNTED_MAX
        assert counts[JobState.WAITING] == 1
