"""Idempotency keys: a repeated request has no second effect."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.errors import Conflict, Invalid, NotFound, RequestInFlight
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest, StoredRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import BULK_JOBS_MAX
from onbeat.model.page import JobFilter
from onbeat.ports.store import Store
from onbeat.testing.build import (
    DAY,
    NOW,
    SECOND,
    a_job,
    a_plan,
    a_schedule,
    an_id,
    an_occurrence,
)
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.races import CALLERS, in_tasks, in_threads
from onbeat.testing.store_contract.steps import FAILURE, end, run_and_end, run_job

EVERY_BYTE = bytes(range(256))


def keep_nothing(_result: object) -> bytes:
    return b"{}"


def a_keyed_request(
    key: str, *jobs: Job, answer: Callable[[Any], bytes] = keep_nothing, **fields: Any
) -> KeyedRequest:
    ids = [job.id for job in jobs]
    request = KeyedRequest(
        digest=hashlib.sha256(key.encode()).digest(),
        fingerprint=hashlib.sha256(b"body").digest()[:16],
        made_at=NOW,
        answer=answer,
        first_job=min(ids, default=None),
        last_job=max(ids, default=None),
    )
    return msgspec.structs.replace(request, **fields)


async def count(store: Store) -> int:
    return len((await store.jobs(JobFilter(limit=1_000))).items)


async def is_kept(store: Store, key: str) -> bool:
    return await store.keyed_answer(a_keyed_request(key).digest) is not None


class RequestContract:
    async def test_a_request_that_came_before_is_not_done_again(self, store: Store) -> None:
        first, second = a_job(), a_job()
        await store.enqueue([first], a_keyed_request("one", first))
        with pytest.raises(RequestInFlight):
            await store.enqueue([second], a_keyed_request("one", second))
        assert await store.job(second.id) is None
        assert await count(store) == 1

    async def test_a_request_counts_as_done_after_its_job_has_ended(self, store: Store) -> None:
        first, second = a_job(), a_job()
        await store.enqueue([first], a_keyed_request("one", first))
        await end(store, await run_job(store, first))
        with pytest.raises(RequestInFlight):
            await store.enqueue([second], a_keyed_request("one", second))
        assert await store.job(second.id) is None

    async def test_what_was_answered_is_kept(self, store: Store) -> None:
        job = a_job()
        request = a_keyed_request(
            "one",
            job,
            answer=lambda result: result[0].id.encode() + EVERY_BYTE,
            made_at=NOW + SECOND,
        )
        await store.enqueue([job], request)
        assert await store.keyed_answer(request.digest) == KeyedAnswer(
            fingerprint=request.fingerprint,
            made_at=NOW + SECOND,
            answer=job.id.encode() + EVERY_BYTE,
        )

    async def test_keys_of_every_byte_are_kept_apart(self, store: Store) -> None:
        digests = [bytes([byte]) * 32 for byte in (0, 39, 59, 92, 128, 255)]
        for digest in digests:
            await store.enqueue([a_job()], a_keyed_request("", digest=digest, answer=lambda _: b""))
        for digest in digests:
            assert await store.keyed_answer(digest) is not None
        assert await store.forget_requests(before=NOW + DAY, now=NOW, limit=9) == len(digests)
        for digest in digests:
            assert await store.keyed_answer(digest) is None

    async def test_requests_are_exported_in_pages_and_imported(self, store: Store) -> None:
        jobs = [a_job() for _ in range(3)]
        plain = [bytes([byte]) * 32 for byte in (0, 92, 128, 255)]
        await store.enqueue(jobs, a_keyed_request("", *jobs, digest=bytes([39]) * 32))
        for digest in plain:
            request = a_keyed_request("", digest=digest, answer=lambda _: EVERY_BYTE)
            await store.enqueue([a_job()], request)
        first = await store.export_requests(None, 3)
        rest = await store.export_requests(first[-1].digest, 3)
        stored = [*first, *rest]
        assert [one.digest[0] for one in stored] == [0, 39, 92, 128, 255]
        assert (stored[1].first_job, stored[1].last_job) == (jobs[0].id, jobs[-1].id)
        assert stored[2].answer.answer == EVERY_BYTE
        assert await store.import_requests(stored) == 0
        assert await store.forget_requests(before=NOW + DAY, now=NOW + SECOND, limit=9) == 5
        live = await store.export_requests(None, 9)
        assert live == [replace(stored[1], kept_from=NOW + SECOND)]
        assert await store.import_requests(stored) == 4
        assert await store.export_requests(None, 9) == [stored[0], *live, *stored[2:]]

    async def test_an_imported_request_is_not_done_again(self, store: Store) -> None:
        job, again = a_job(), a_job()
        request = a_keyed_request("one", job)
        answer = KeyedAnswer(fingerprint=request.fingerprint, made_at=NOW, answer=b"{}")
        stored = StoredRequest(digest=request.digest, answer=answer, kept_from=NOW)
        assert await store.import_requests([stored]) == 1
        with pytest.raises(RequestInFlight):
            await store.enqueue([again], request)
        assert await store.job(again.id) is None
        assert await store.keyed_answer(request.digest) == answer

    async def test_a_key_that_never_came_has_no_answer(self, store: Store) -> None:
        assert await store.keyed_answer(bytes(32)) is None
        assert await store.begun_at(bytes(32)) is None

    async def test_a_request_that_failed_leaves_its_key_free(self, store: Store) -> None:
        bad, good = a_job(after=(JobId(an_id()),)), a_job()
        with pytest.raises(Invalid):
            await store.enqueue([bad], a_keyed_request("one", bad))
        assert not await is_kept(store, "one")
        await store.enqueue([good], a_keyed_request("one", good))
        assert await is_kept(store, "one")

    async def test_an_answer_that_raises_leaves_nothing(self, store: Store) -> None:
        def refuse(_result: object) -> bytes:
            raise Conflict

        job = await run_job(store, a_job())
        with pytest.raises(Conflict):
            await store.retry([job.id], NOW, a_keyed_request("one", job, answer=refuse))
        assert not await is_kept(store, "one")

    async def test_many_jobs_are_added_under_one_key(self, store: Store) -> None:
        jobs = [a_job() for _ in range(300)]
        request = a_keyed_request("one", *jobs, answer=lambda result: b"%d" % len(result))
        answers = await store.enqueue(jobs, request)
        assert [answer.id for answer in answers] == [job.id for job in jobs]
        assert all(answer.created for answer in answers)
        with pytest.raises(RequestInFlight):
            await store.enqueue([a_job() for _ in range(300)], request)
        assert await count(store) == 300
        kept = await store.keyed_answer(request.digest)
        assert kept is not None
        assert kept.answer == b"300"

    async def test_jobs_that_exist_already_may_be_sent_under_another_key(
        self, store: Store
    ) -> None:
        jobs = [a_job() for _ in range(200)]
        await store.enqueue(jobs, a_keyed_request("one", *jobs))
        again = await store.enqueue(jobs, a_keyed_request("two", *jobs))
        assert all(answer.created for answer in again)
        assert await count(store) == 200

    async def test_a_live_job_with_the_unique_key_answers_a_keyed_request(
        self, store: Store
    ) -> None:
        live, other = a_job(unique="u"), a_job(unique="u")
        await store.enqueue([live])
        (answer,) = await store.enqueue([other], a_keyed_request("one", other))
        assert (answer.id, answer.created) == (live.id, False)

    async def test_a_keyed_job_waits_for_others(self, store: Store) -> None:
        first = a_job()
        second = a_job(after=(first.id,))
        await store.enqueue([first, second], a_keyed_request("one", first, second))
        stored = await store.job(second.id)
        assert stored is not None
        assert stored.blocked_by == 1

    async def test_an_answer_as_long_as_a_bulk_request_makes_it_is_kept(self, store: Store) -> None:
        answer = EVERY_BYTE * (BULK_JOBS_MAX * 40 // 256)
        await store.enqueue([a_job()], a_keyed_request("one", answer=lambda _: answer))
        kept = await store.keyed_answer(a_keyed_request("one").digest)
        assert kept is not None
        assert kept.answer == answer

    async def test_a_schedule_is_added_once(self, store: Store) -> None:
        first, second = a_schedule(key="same"), a_schedule(key="same")
        await store.add_schedule(first, a_plan(first), a_keyed_request("one"))
        with pytest.raises(RequestInFlight):
            await store.add_schedule(second, a_plan(second), a_keyed_request("one"))
        assert await store.schedule(second.id) is None

    async def test_a_schedule_that_is_refused_leaves_its_key_free(self, store: Store) -> None:
        first, second = a_schedule(key="same"), a_schedule(key="same")
        await store.add_schedule(first, a_plan(first))
        with pytest.raises(Conflict):
            await store.add_schedule(second, a_plan(second), a_keyed_request("one"))
        assert not await is_kept(store, "one")

    async def test_a_trigger_of_a_schedule_that_is_gone_leaves_its_key_free(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        job = a_job(schedule_id=schedule.id)
        with pytest.raises(NotFound):
            await store.trigger(schedule.id, job, a_keyed_request("one", job))
        assert not await is_kept(store, "one")

    async def test_a_schedule_is_triggered_once(self, store: Store) -> None:
        schedule = a_schedule()
        await store.add_schedule(schedule, a_plan(schedule))
        first, second = (a_job(schedule_id=schedule.id) for _ in range(2))
        await store.trigger(schedule.id, first, a_keyed_request("one", first))
        with pytest.raises(RequestInFlight):
            await store.trigger(schedule.id, second, a_keyed_request("one", second))
        assert await store.job(second.id) is None

    async def test_a_backfill_is_done_once(self, store: Store) -> None:
        schedule = a_schedule()
        await store.add_schedule(schedule, a_plan(schedule))
        request = a_keyed_request("one", answer=lambda added: b"%d" % added)
        first, second = (an_occurrence(schedule, NOW - days * DAY) for days in (1, 2))
        assert await store.backfill(schedule.id, [first], (), request) == 1
        with pytest.raises(RequestInFlight):
            await store.backfill(schedule.id, [second], (), request)
        assert await store.job(second.id) is None
        kept = await store.keyed_answer(request.digest)
        assert kept is not None
        assert kept.answer == b"1"

    async def test_a_job_is_retried_once(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.retry([job.id], NOW, a_keyed_request("one", job))
        again = await store.job(job.id)
        assert again is not None
        await end(store, await run_job(store, again), FAILURE)
        with pytest.raises(RequestInFlight):
            await store.retry([job.id], NOW, a_keyed_request("one", job))
        stored = await store.job(job.id)
        assert stored is not None
        assert stored.state is JobState.FAILED

    async def test_a_letter_goes_with_the_key_of_its_request(self, store: Store) -> None:
        letter = a_dead_letter()
        await store.add_dead_letters([letter])
        request = a_keyed_request("one", answer=lambda gone: b"%d" % gone)
        assert await store.delete_dead_letters([letter.id], request) == 1
        kept = await store.keyed_answer(request.digest)
        assert kept is not None
        assert kept.answer == b"1"


class RequestKeepingContract:
    async def test_a_key_is_kept_as_long_as_asked(self, store: Store) -> None:
        await store.enqueue([a_job()], a_keyed_request("one", made_at=NOW))
        assert await store.forget_requests(before=NOW, now=NOW + DAY, limit=9) == 0
        assert await is_kept(store, "one")

    async def test_a_key_goes_when_its_keep_is_over(self, store: Store) -> None:
        await store.enqueue([a_job()], a_keyed_request("one", made_at=NOW))
        just_after = NOW + SECOND / 1_000_000
        assert await store.forget_requests(before=just_after, now=NOW + DAY, limit=9) == 1
        assert not await is_kept(store, "one")
        await store.enqueue([a_job()], a_keyed_request("one"))

    async def test_the_key_of_a_live_job_stays(self, store: Store) -> None:
        jobs = [a_job(), a_job(), a_job()]
        await store.enqueue(jobs, a_keyed_request("one", *jobs))
        await store.cancel([jobs[0].id, jobs[2].id], "by hand", NOW)
        assert await store.forget_requests(before=NOW + DAY, now=NOW + 2 * DAY, limit=9) == 1
        assert await is_kept(store, "one")
        # It is checked again only after a full retention period.
        assert await store.forget_requests(before=NOW + 2 * DAY, now=NOW + 3 * DAY, limit=9) == 0
        await store.cancel([jobs[1].id], "by hand", NOW)
        assert await store.forget_requests(before=NOW + 3 * DAY, now=NOW + 4 * DAY, limit=9) == 1
        assert not await is_kept(store, "one")

    async def test_a_running_job_keeps_its_key(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job], a_keyed_request("one", job))
        runs = await run_job(store, job)
        await store.forget_requests(before=NOW + DAY, now=NOW + DAY, limit=9)
        assert await is_kept(store, "one")
        await end(store, runs)
        await store.forget_requests(before=NOW + 2 * DAY, now=NOW + 2 * DAY, limit=9)
        assert not await is_kept(store, "one")

    async def test_at_most_the_limit_is_looked_at_and_the_oldest_first(self, store: Store) -> None:
        live = a_job()
        await store.enqueue([live], a_keyed_request("live", live, made_at=NOW - DAY))
        for number in range(4):
            request = a_keyed_request(str(number), made_at=NOW + number * SECOND)
            await store.enqueue([a_job()], request)
        assert await store.forget_requests(before=NOW + DAY, now=NOW + DAY, limit=3) == 3
        assert [await is_kept(store, str(number)) for number in range(4)] == [
            False,
            False,
            True,
            True,
        ]
        assert await store.forget_requests(before=NOW + DAY, now=NOW + DAY, limit=3) == 2
        assert await is_kept(store, "live")

    async def test_pruning_of_jobs_leaves_their_keys(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job], a_keyed_request("one", job))
        await end(store, await run_job(store, job))
        late = NOW + 30 * DAY
        assert await store.prune(finished_before=late, failed_before=late, limit=9) == 1
        assert await is_kept(store, "one")


class RequestRaceContract:
    async def test_one_of_many_loops_is_served_under_one_key(self, store: Store) -> None:
        async def act(_number: int) -> bool:
            job = a_job()
            try:
                await store.enqueue([job], a_keyed_request("one", job))
            except RequestInFlight:
                return False
            return True

        assert sum(await in_threads(act)) == 1
        assert await count(store) == 1

    async def test_one_of_many_tasks_is_served_under_one_key(self, store: Store) -> None:
        async def act(_number: int) -> bool:
            jobs = [a_job() for _ in range(150)]
            try:
                await store.enqueue(jobs, a_keyed_request("one", *jobs))
            except RequestInFlight:
                return False
            return True

        assert sum(await in_tasks(act)) == 1
        assert await count(store) == 150

    async def test_many_keys_at_once_are_all_served(self, store: Store) -> None:
        async def act(number: int) -> None:
            for place in range(5):
                job = a_job()
                await store.enqueue([job], a_keyed_request(f"{number}/{place}", job))

        await in_threads(act)
        assert await count(store) == CALLERS * 5

    async def test_keys_that_are_forgotten_meanwhile_let_others_be(self, store: Store) -> None:
        async def send(number: int) -> None:
            for place in range(5):
                await store.enqueue([a_job()], a_keyed_request(f"{number}/{place}"))

        async def forget(_number: int) -> None:
            for _ in range(5):
                await store.forget_requests(before=NOW + DAY, now=NOW + DAY, limit=3)

        await asyncio.gather(in_tasks(send), in_tasks(forget))
        assert await count(store) == CALLERS * 5
