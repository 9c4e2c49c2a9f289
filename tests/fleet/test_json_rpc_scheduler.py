"""A task scheduler that speaks JSON-RPC over queues: each of its documented steps."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conditions import eventually
from fleet.conftest import Outside
from onbeat import Onbeat, Retry, remote_task
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import RPC_BATCH_MAX
from onbeat.ports.store import ClaimRequest
from onbeat.wire.broker_messages import DEAD, REPLIES, RESULTS, SUBMIT, work_queue

pytestmark = pytest.mark.proof

WORK = work_queue("default")
SUBMITTED = {"jsonrpc": "2.0", "method": "submit:export", "params": {"objectID": 23}}
EXPORT = remote_task("export", requires=("objectID",), key="export:{objectID}", unique_for="31d")
LEASE = timedelta(seconds=4)
"""Of work that is lost: longer than a busy machine may let a worker stand still before it answers."""
LINEAR = Retry(attempts_max=10, backoff="linear", delay="5s", jitter=False)


def waiting(job: Job) -> bool:
    return job.state is JobState.WAITING


async def test_a_submission_becomes_one_waiting_job(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A01."""
    async with make_fleet(roles=frozenset({"maintenance"})) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        job = await fleet.the_job(lambda job: True, "the job")
        assert (job.target.task, bytes(job.target.kwargs)) == ("export", b'{"objectID":23}')
        assert (job.state, job.attempt) == (JobState.WAITING, 0)


async def test_the_request_to_the_worker_and_its_success(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A02, S3-A03."""
    async with make_fleet() as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        delivery = await outside.next(WORK)
        request = json.loads(delivery.body)
        job = await fleet.the_job(lambda job: job.attempt == 1, "its first attempt")
        assert request == {
            "jsonrpc": "2.0",
            "method": "export",
            "params": {"objectID": 23, "attempt": 1},
            "id": job.id,
        }
        assert job.state is JobState.RUNNING
        result = {"result": "success", "attempt": 1}
        await outside.answer(delivery, result=result)
        done = await fleet.the_job(lambda job: job.state is JobState.SUCCEEDED, "its end")
        assert json.loads(bytes(done.result))["result"] == "success"


async def test_s3_d01_its_workers_may_answer_as_they_did(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A03 and S3-A08, by workers that send an attempt and no token."""
    async with make_fleet(fence="attempt") as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        first = await outside.next(WORK)
        await outside.answer_plainly(first, error={"code": 1, "message": "m", "attempt": 1})
        again = await outside.next(WORK)
        await outside.answer_plainly(first, result={"result": "late", "attempt": 1})
        await outside.answer_plainly(again, result={"result": "success", "attempt": 2})
        done = await fleet.the_job(lambda job: job.state is JobState.SUCCEEDED, "its end")
        assert json.loads(bytes(done.result)) == {"result": "success"}
        assert await fleet.beat.backend.store.dead_letters(None, 1) == []


async def test_an_error_is_tried_again_after_five_seconds(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A04."""
    async with make_fleet(retry=LINEAR) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        delivery = await outside.next(WORK)
        error = {"code": -1234, "message": "something bad happened", "attempt": 1}
        await outside.answer(delivery, error=error)
        job = await fleet.the_job(waiting, "the wait for its second attempt")
        (attempt,) = await fleet.beat.backend.store.attempts(job.id)
        assert "something bad happened" in job.error
        assert job.due_at - attempt.finished_at == timedelta(seconds=5)


async def test_ten_errors_are_the_end(make_fleet: Callable[..., Any], outside: Outside) -> None:
    """S3-A05."""
    async with make_fleet(retry=Retry(attempts_max=10, delay=0)) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        for number in range(1, 11):
            delivery = await outside.next(WORK)
            request = json.loads(delivery.body)
            assert request["params"]["attempt"] == number
            error = {"code": "5050", "message": "random", "attempt": str(number)}
            await outside.answer(delivery, error=error)
        job = await fleet.the_job(lambda job: job.state is JobState.FAILED, "its end")
        assert (job.attempt, job.reason) == (10, "attempts used up")
        assert await outside.look(WORK, within=0.5) is None


async def test_s3_a06_the_same_submission_twice_is_one_job_and_a_warning(
    make_fleet: Callable[..., Any], outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has a message of its own; the key of the task's declaration says they are one."""
    async with make_fleet(remote=[EXPORT], roles=frozenset({"maintenance"})) as fleet:
        answers: list[Any] = []
        for number in (1, 2):
            await outside.say(SUBMIT, SUBMITTED | {"id": number}, id=f"message-{number}")
            answers.append(json.loads((await outside.next(REPLIES)).body)["result"])
        (job,) = await fleet.jobs()
        assert (job.unique, job.unique_for) == ("export:23", timedelta(days=31))
        assert answers == [{"id": job.id, "created": True}, {"id": job.id, "created": False}]
        (warning,) = [record for record in caplog.records if "duplicate" in record.getMessage()]
        assert warning.levelname == "WARNING"
        assert await fleet.beat.backend.store.dead_letters(None, 1) == []


async def test_an_ended_job_answers_for_as_long_as_its_key_is_taken(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    async with make_fleet(remote=[EXPORT]) as fleet:
        await outside.say(SUBMIT, SUBMITTED | {"id": 1})
        first = json.loads((await outside.next(REPLIES)).body)["result"]
        await outside.answer(await outside.next(WORK), result={"attempt": 1})
        await fleet.the_job(lambda job: job.is_final, "its end")
        store = fleet.beat.backend.store
        later = fleet.beat.backend.clock.now() + timedelta(hours=1)
        await store.prune(finished_before=later, failed_before=later, limit=10)
        assert await fleet.jobs() == []
        await outside.say(SUBMIT, SUBMITTED | {"id": 2})
        second = json.loads((await outside.next(REPLIES)).body)["result"]
        assert (first["created"], second) == (True, {"id": first["id"], "created": False})


async def test_one_message_delivered_again_is_one_job(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """By the message's own id, and by a key that the sender chose."""
    async with make_fleet(roles=frozenset({"maintenance"})) as fleet:
        for _ in range(3):
            await outside.say(SUBMIT, SUBMITTED, id="message-1")
        keyed = SUBMITTED | {"onbeat": {"unique": "export:23"}, "id": 7}
        for _ in range(3):
            await outside.say(SUBMIT, keyed)
        answers = [json.loads((await outside.next(REPLIES)).body)["result"] for _ in range(3)]
        assert len({answer["id"] for answer in answers}) == 1
        assert sorted(answer["created"] for answer in answers) == [False, False, True]
        assert len(await fleet.jobs()) == 2


async def test_a_job_whose_worker_died_is_delivered_again(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A07."""
    async with make_fleet(lease=LEASE) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        first = json.loads((await outside.next(WORK)).body)
        second = json.loads((await outside.next(WORK)).body)
        assert (first["params"]["attempt"], second["params"]["attempt"]) == (1, 2)
        (attempt,) = await fleet.beat.backend.store.attempts(first["id"])
        assert attempt.outcome == "lost"


async def test_a_late_result_of_an_earlier_attempt_changes_nothing(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A08."""
    async with make_fleet(lease=LEASE) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        first = await outside.next(WORK)
        second = await outside.next(WORK)
        await outside.answer(first, result={"result": "late", "attempt": 1})
        await outside.answer(first, result={"result": "late", "attempt": 2})
        await outside.answer(second, result={"result": "success", "attempt": 2})
        job = await fleet.the_job(lambda job: job.is_final, "its end")
        assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
        assert json.loads(bytes(job.result)) == {"result": "success"}


async def test_a_crash_between_effect_and_result_has_one_effect(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A09: the worker keeps the job's id with its effect, and finds it there the second time."""
    exported: dict[str, int] = {}
    async with make_fleet(lease=LEASE) as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        for crashes in (True, False):
            delivery = await outside.next(WORK)
            request = json.loads(delivery.body)
            exported.setdefault(request["id"], request["params"]["objectID"])
            if not crashes:
                result = {"result": "success", "attempt": request["params"]["attempt"]}
                await outside.answer(delivery, result=result)
        await fleet.the_job(lambda job: job.state is JobState.SUCCEEDED, "its success")
        assert list(exported.values()) == [23]


async def test_ended_jobs_go_after_their_time_and_failed_ones_stay_longer(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A10."""
    async with make_fleet(
        keep=timedelta(0), keep_failed=timedelta(days=1), retry=Retry(attempts_max=1)
    ) as fleet:
        for number in (1, 2):
            await outside.say(SUBMIT, SUBMITTED | {"params": {"objectID": number}})
        for _ in range(2):
            delivery = await outside.next(WORK)
            request = json.loads(delivery.body)
            fields = (
                {"code": 1, "message": "no", "attempt": 1}
                if request["params"]["objectID"] == 2
                else None
            )
            outcome = {"error": fields} if fields else {"result": {"attempt": 1}}
            await outside.answer(delivery, **outcome)
        await fleet.the_job(lambda job: job.state is JobState.FAILED, "the one that failed")
        now = fleet.beat.backend.clock.now() + timedelta(hours=1)
        keep = {"finished_before": now, "failed_before": now - timedelta(days=1), "limit": 10}

        async def pruned() -> bool:
            await fleet.beat.backend.store.prune(**keep)
            return [job.state for job in await fleet.jobs()] == [JobState.FAILED]

        await eventually(pruned, "the one that succeeded is gone")


@pytest.mark.parametrize("params", [{}, {"objectID": None}, {"objectId": 23}, [23]])
async def test_s3_a11_a_submission_without_its_param_is_rejected_once_and_not_stored(
    make_fleet: Callable[..., Any], outside: Outside, params: Any
) -> None:
    message = {"jsonrpc": "2.0", "method": "submit:export", "params": params}
    async with make_fleet(remote=[EXPORT], roles=frozenset({"maintenance"})) as fleet:
        await outside.say(SUBMIT, message | {"id": 1})
        error = json.loads((await outside.next(REPLIES)).body)["error"]
        assert (error["code"], error["data"]["field"]) == (-32602, "params.objectID")
        (letter,) = await fleet.dead_letters(1)
        assert "params.objectID is missing" in letter.reason
        assert await outside.look(SUBMIT, within=0.2) is None
        assert await fleet.jobs() == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff\xfe", "UTF-8"),
        (b'{"jsonrpc":"2.0","method":"submit:export","params":', "JSON"),
        ({"jsonrpc": "2.0", "method": "submit:dummy", "params": {}}, "dummy"),
        ({"jsonrpc": "2.0", "method": "submit:export", "params": "objectID"}, "params"),
        ({"jsonrpc": "1.0", "method": "submit:export"}, "jsonrpc"),
    ],
)
async def test_what_cannot_be_used_is_put_aside_once_with_its_reason(
    make_fleet: Callable[..., Any], outside: Outside, message: bytes | dict[str, Any], reason: str
) -> None:
    async with make_fleet(roles=frozenset({"maintenance"})) as fleet:
        await outside.say(SUBMIT, message)
        (letter,) = await fleet.dead_letters(1)
        assert reason in letter.reason
        assert letter.source == SUBMIT
        answer = await outside.next(DEAD)
        assert (answer.body, answer.headers["onbeat-source"]) == (letter.body, SUBMIT)
        assert answer.headers["onbeat-reason"] == letter.reason[:500]
        assert await fleet.jobs() == []


async def test_many_senders_send_each_job_once(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """S3-A12: two dispatchers on one store, a thousand jobs."""
    async with make_fleet() as fleet:
        task = "export"
        async with make_fleet() as other:
            assert other.beat is not fleet.beat
            for first in range(0, 1_000, RPC_BATCH_MAX):
                numbers = range(first, first + RPC_BATCH_MAX)
                await outside.say(
                    SUBMIT, [SUBMITTED | {"params": {"objectID": n}} for n in numbers]
                )
            seen = [json.loads((await outside.next(WORK)).body) for _ in range(1_000)]
        assert sorted(one["params"]["objectID"] for one in seen) == list(range(1_000))
        assert {one["method"] for one in seen} == {task}
        assert len({one["id"] for one in seen}) == 1_000


async def test_a_stop_lets_the_present_job_end(
    make_fleet: Callable[..., Any], outside: Outside, transport: str
) -> None:
    """S3-A13: for a worker with the store at hand."""
    began, goes_on = asyncio.Event(), asyncio.Event()

    def register(beat: Onbeat) -> None:
        @beat.task("slow")
        async def slow() -> str:
            began.set()
            await goes_on.wait()
            return "done"

    async with make_fleet(register=register) as fleet:
        await outside.say(SUBMIT, {"jsonrpc": "2.0", "method": "submit:slow"})
        await began.wait()
        stop = asyncio.create_task(fleet.beat.stop())
        goes_on.set()
        assert await stop == 0
        (job,) = await fleet.jobs()
        assert job.state is JobState.SUCCEEDED


async def test_an_unknown_method_of_a_worker_is_put_aside_and_the_job_waits(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    async with make_fleet() as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        delivery = await outside.next(WORK)
        error = {"code": -32601, "message": "Method not found", "attempt": 1}
        await outside.answer(delivery, error=error)
        await fleet.dead_letters(1)
        job = await fleet.the_job(waiting, "the wait for another worker")
        assert job.attempt == 0


async def test_results_without_a_token_or_a_job_are_put_aside(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    async with make_fleet() as fleet:
        await outside.say(RESULTS, {"jsonrpc": "2.0", "result": {"ok": 1}, "id": "1"})
        await outside.say(RESULTS, {"jsonrpc": "2.0", "id": "1"})
        await outside.say(RESULTS, b"no json")
        assert len(await fleet.dead_letters(3)) == 3


async def test_nobody_else_claims_what_was_sent(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    async with make_fleet() as fleet:
        await outside.say(SUBMIT, SUBMITTED)
        await outside.next(WORK)
        claimed = await fleet.beat.backend.store.claim(
            ClaimRequest(
                worker=WorkerId("remote:me"),
                now=fleet.beat.backend.clock.now(),
                limit=10,
                lanes=frozenset({"export"}),
            )
        )
        assert claimed.jobs == ()
