"""Fan-out: jobs that a running job sends, and the cursor for its next attempt."""

from typing import Any

import msgspec
from msgspec.structs import replace

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Lost, Released
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Hint, SentJobs, Store
from onbeat.testing.build import DAY, HOUR, NOW, SECOND, a_job, a_schedule, an_id, an_occurrence
from onbeat.testing.store_contract.hints import expect_hint
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    a_cancelled_job,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

CURSOR = msgspec.Raw(b'{"page":7}')
MANY = 3_000
LATER = NOW + HOUR
"""The due time of sent jobs, so that claims of the sender skip them."""


def sent_by(sender: Job, *jobs: Job, **fields: Any) -> SentJobs:
    return replace(SentJobs(sender=sender.id, token=sender.token, jobs=jobs), **fields)


def a_later_job(**fields: Any) -> Job:
    return a_job(due_at=LATER, **fields)


class SendContract:
    async def test_what_a_running_job_sends_is_stored(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        jobs = [a_later_job(labels={"n": str(number)}, group="a") for number in range(3)]
        assert list(await store.enqueue_from([sent_by(sender, *jobs)])) == [True]
        assert [await stored_job(store, job) for job in jobs] == jobs

    async def test_what_was_sent_is_given_out(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        second, first = a_job(), a_job(priority=-1)
        await store.enqueue_from([sent_by(sender, second, first)])
        assert ids_of(await claim_jobs(store)) == [first.id, second.id]

    async def test_jobs_that_were_sent_are_told(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        async with expect_hint(store, Hint.JOBS):
            await store.enqueue_from([sent_by(sender, a_job())])

    async def test_thousands_are_sent_in_one_call(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        jobs = [a_later_job() for _ in range(MANY)]
        assert list(await store.enqueue_from([sent_by(sender, *jobs)])) == [True]
        assert (await store.stats(NOW)).jobs["waiting"] == MANY

    async def test_cursor_and_progress_are_kept(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        sent = sent_by(sender, a_later_job(), cursor=CURSOR, progress=Progress(7, 9))
        await store.enqueue_from([sent])
        assert await stored_job(store, sender) == replace(
            sender, cursor=CURSOR, progress=Progress(7, 9)
        )

    async def test_what_is_not_told_stays_as_it_was(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        await store.enqueue_from([sent_by(sender, cursor=CURSOR, progress=Progress(7, 9))])
        far = await stored_job(store, sender)
        await store.enqueue_from([sent_by(sender, a_later_job())])
        assert await stored_job(store, sender) == far

    async def test_a_cursor_may_be_kept_without_jobs(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        assert list(await store.enqueue_from([sent_by(sender, cursor=CURSOR)])) == [True]
        assert (await stored_job(store, sender)).cursor == CURSOR

    async def test_the_latest_cursor_stands(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        await store.enqueue_from([sent_by(sender, cursor=CURSOR)])
        await store.enqueue_from([sent_by(sender, cursor=msgspec.Raw(b"8"))])
        assert (await stored_job(store, sender)).cursor == msgspec.Raw(b"8")

    async def test_another_try_begins_with_the_cursor_of_the_last(self, store: Store) -> None:
        sender = await run_job(store, a_job(retry=IN_A_MINUTE))
        await store.enqueue_from([sent_by(sender, cursor=CURSOR, progress=Progress(7))])
        # The worker settles the job as claimed, without the cursor.
        waits = await end(store, sender, PASSING_FAILURE)
        (again,) = await claim_jobs(store, now=LATER)
        assert (waits.cursor, again.cursor, again.progress) == (CURSOR, CURSOR, None)
        assert await stored_job(store, sender) == again

    async def test_a_rescued_job_goes_on_at_its_cursor(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        await store.enqueue_from([sent_by(sender, cursor=CURSOR)])
        await end(store, sender, Lost("the worker died"))
        await end(store, (await claim_jobs(store))[0], Released())
        (again,) = await claim_jobs(store)
        assert again.cursor == CURSOR

    async def test_an_edit_of_the_schedule_keeps_the_cursor(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (sender,) = await claim_jobs(store)
        await store.enqueue_from([sent_by(sender, cursor=CURSOR)])
        await end(store, sender, Released())
        await store.update_schedule(replace(schedule, priority=3, version=2), None, NOW)
        (again,) = await claim_jobs(store)
        assert (again.cursor, again.priority) == (CURSOR, 3)

    async def test_a_retry_by_hand_begins_anew(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        await store.enqueue_from([sent_by(sender, cursor=CURSOR)])
        await end(store, sender, FAILURE)
        await store.retry([sender.id], NOW)
        (again,) = await claim_jobs(store)
        assert again.cursor is None

    async def test_a_lost_lease_sends_nothing(self, store: Store) -> None:
        stale = await run_job(store, a_job())
        await end(store, stale, Lost("no heartbeat"))
        (current,) = await claim_jobs(store)
        job = a_later_job()
        sent = sent_by(stale, job, cursor=CURSOR, progress=Progress(1))
        assert list(await store.enqueue_from([sent])) == [False]
        assert await store.job(job.id) is None
        assert await stored_job(store, stale) == current

    async def test_an_ended_job_sends_nothing(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        ended = await end(store, sender)
        job = a_later_job()
        assert list(await store.enqueue_from([sent_by(sender, job, cursor=CURSOR)])) == [False]
        assert await store.job(job.id) is None
        assert await stored_job(store, sender) == ended

    async def test_an_unknown_job_sends_nothing(self, store: Store) -> None:
        job = a_later_job()
        sent = SentJobs(sender=JobId(an_id()), token=Token(1), jobs=(job,))
        assert list(await store.enqueue_from([sent])) == [False]
        assert await store.job(job.id) is None

    async def test_each_sender_stands_by_itself(self, store: Store) -> None:
        first, second = await run_job(store, a_job()), await run_job(store, a_job())
        lost, kept = a_later_job(), a_later_job()
        stale = replace(sent_by(first, lost), token=Token(99))
        assert list(await store.enqueue_from([stale, sent_by(second, kept)])) == [False, True]
        assert await store.job(lost.id) is None
        assert await stored_job(store, kept) == kept

    async def test_one_sender_may_send_twice_in_one_call(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        first, second = a_later_job(), a_later_job()
        sent = [
            sent_by(sender, first, cursor=msgspec.Raw(b"1")),
            sent_by(sender, first, second, cursor=msgspec.Raw(b"2")),
        ]
        assert list(await store.enqueue_from(sent)) == [True, True]
        assert [await stored_job(store, job) for job in (first, second)] == [first, second]
        assert (await stored_job(store, sender)).cursor == msgspec.Raw(b"2")

    async def test_nothing_sent_is_answered_with_nothing(self, store: Store) -> None:
        assert list(await store.enqueue_from([])) == []

    async def test_sending_again_adds_nothing(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        sent = sent_by(sender, a_later_job(), a_later_job(), cursor=CURSOR)
        await store.enqueue_from([sent])
        assert list(await store.enqueue_from([sent])) == [True]
        assert (await store.stats(NOW)).jobs["waiting"] == 2

    async def test_only_what_is_new_is_added(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        old, new = a_later_job(), a_later_job()
        await store.enqueue_from([sent_by(sender, old)])
        await store.enqueue_from([sent_by(sender, replace(old, priority=9), new)])
        assert [await stored_job(store, job) for job in (old, new)] == [old, new]

    async def test_a_job_that_runs_already_is_left_alone(self, store: Store) -> None:
        sender, job = await run_job(store, a_job()), a_job()
        await store.enqueue_from([sent_by(sender, job)])
        (runs,) = await claim_jobs(store)
        await store.enqueue_from([sent_by(sender, job)])
        assert await stored_job(store, job) == runs

    async def test_a_job_that_has_ended_is_left_alone(self, store: Store) -> None:
        sender, job = await run_job(store, a_job()), a_job()
        await store.enqueue_from([sent_by(sender, job)])
        (runs,) = await claim_jobs(store)
        done = await end(store, runs)
        assert list(await store.enqueue_from([sent_by(sender, job)])) == [True]
        assert await stored_job(store, job) == done
        assert await claim_jobs(store) == ()

    async def test_a_job_is_sent_again_although_what_it_waited_for_is_pruned(
        self, store: Store
    ) -> None:
        first = await run_and_end(store, a_job())
        sender = await run_job(store, a_job())
        sent = sent_by(sender, a_later_job(after=(first.id,)))
        await store.enqueue_from([sent])
        await store.prune(finished_before=NOW + DAY, failed_before=NOW + DAY, limit=10)
        assert await store.job(first.id) is None
        assert list(await store.enqueue_from([sent])) == [True]

    async def test_a_job_whose_unique_key_is_held_is_left_out(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        holder = a_later_job(unique="key")
        await store.enqueue([holder])
        left_out, other = a_later_job(unique="key"), a_later_job(unique="other")
        sent = sent_by(sender, left_out, other, cursor=CURSOR)
        assert list(await store.enqueue_from([sent])) == [True]
        assert await store.job(left_out.id) is None
        assert await stored_job(store, other) == other
        assert (await stored_job(store, sender)).cursor == CURSOR

    async def test_of_several_with_one_unique_key_the_first_is_sent(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        first, second = a_later_job(unique="key"), a_later_job(unique="key")
        await store.enqueue_from([sent_by(sender, first, second)])
        assert await stored_job(store, first) == first
        assert await store.job(second.id) is None

    async def test_one_that_is_cancelled_as_it_is_sent_leaves_its_unique_key_to_the_next(
        self, store: Store
    ) -> None:
        dead = await a_cancelled_job(store)
        sender = await run_job(store, a_job())
        doomed = a_later_job(unique="key", after=(dead.id,))
        sent = a_later_job(unique="key")
        for _ in range(2):  # an answer that was lost
            assert list(await store.enqueue_from([sent_by(sender, doomed, sent)])) == [True]
            assert (await stored_job(store, doomed)).state is JobState.CANCELLED
            assert await stored_job(store, sent) == sent

    async def test_a_unique_key_that_the_sender_holds_is_held(self, store: Store) -> None:
        sender = await run_job(store, a_job(unique="key"))
        job = a_later_job(unique="key")
        await store.enqueue_from([sent_by(sender, job)])
        assert await store.job(job.id) is None

    async def test_a_job_that_was_sent_may_wait_for_another(self, store: Store) -> None:
        sender, first = await run_job(store, a_job()), a_job()
        second = a_job(after=(first.id, sender.id))
        await store.enqueue_from([sent_by(sender, first, second)])
        assert (await stored_job(store, second)).blocked_by == 2
        (runs,) = await claim_jobs(store)
        await end(store, runs)
        await end(store, sender)
        assert ids_of(await claim_jobs(store)) == [second.id]

    async def test_a_job_that_was_sent_waits_for_the_holder_of_a_key(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        holder = a_job(unique="key")
        await store.enqueue([holder])
        double = a_later_job(unique="key")
        job = a_job(after=(double.id,))
        sent = sent_by(sender, double, job)
        for _ in range(2):
            assert list(await store.enqueue_from([sent])) == [True]
            waiting = await stored_job(store, job)
            assert (waiting.after, waiting.blocked_by) == ((holder.id,), 1)
        (runs,) = await claim_jobs(store)
        await end(store, runs)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_a_job_that_was_sent_ends_with_what_it_waits_for(self, store: Store) -> None:
        sender = await run_job(store, a_job())
        failed = await end(store, await run_job(store, a_job()), FAILURE)
        job = a_later_job(after=(failed.id,))
        await store.enqueue_from([sent_by(sender, job)])
        assert (await stored_job(store, job)).state is JobState.CANCELLED

    async def test_a_sender_with_overlap_sends_all_the_same(self, store: Store) -> None:
        schedule = a_schedule(overlap=Overlap.WAIT)
        await add_planned(
            store, schedule, an_occurrence(schedule, NOW - SECOND), an_occurrence(schedule)
        )
        (sender,) = await claim_jobs(store)
        job = a_later_job()
        assert list(await store.enqueue_from([sent_by(sender, job, cursor=CURSOR)])) == [True]
        assert await stored_job(store, job) == job
