"""Workers elsewhere: claimed, renewed and settled over HTTP, or by messages on a queue."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from app.event_jobs import an_event, made_for, task
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid, LeaseLost, Malformed, NotFound, TooLarge, Unavailable
from onbeat.model.ids import JobId, Token
from onbeat.model.job import JobState
from onbeat.model.limits import REQUEST_BYTES_MAX, RESULT_BYTES_MAX
from onbeat.model.outcome import UNANSWERED, Evidence, Lost, Snoozed, Succeeded
from onbeat.model.remote_task import RemoteFence
from onbeat.model.worker import calls_id, carrier_id
from onbeat.operations.fence import fence_of
from onbeat.operations.results import ResultJudgement, Verdict, settle_result
from onbeat.operations.tables.jobs import JOB_CANCEL, JOB_ENQUEUE, JOB_RETRY, JOB_SHOW, JOB_WHY
from onbeat.operations.tables.remote_work import JOB_CLAIM, JOB_RENEW, JOB_SETTLE, JOB_START
from onbeat.ports.store import ClaimRequest, Settlement
from onbeat.rules.settlement import attempt_of, settle
from operations.harness import NOON, OperationsHarness

ONCE = {"attempts_max": 1}
MINUTE = timedelta(minutes=1)
CLAIM = {"worker": "exporter-1", "tasks": ["export"]}


class RemoteWorkerHarness(OperationsHarness):
    """An office and a worker that has no store."""

    async def enqueue(self, **body: Any) -> str:
        made = await self.ask(JOB_ENQUEUE, {"task": "export", "kwargs": {"objectID": 23}} | body)
        return made["id"]

    async def take(self, **body: Any) -> list[dict[str, Any]]:
        return (await self.ask(JOB_CLAIM, CLAIM | body))["jobs"]

    async def given(self, **body: Any) -> dict[str, Any]:
        """A job that this worker has."""
        await self.enqueue(**body)
        (job,) = await self.take()
        return job

    async def settle(self, job: dict[str, Any], **body: Any) -> dict[str, Any]:
        return await self.ask(JOB_SETTLE, {"token": job["token"], **body}, id=job["id"])

    async def renew(self, job: dict[str, Any], **body: Any) -> dict[str, Any]:
        return await self.ask(JOB_RENEW, {"token": job["token"], **body}, id=job["id"])

    async def show(self, job: dict[str, Any]) -> dict[str, Any]:
        return await self.ask(JOB_SHOW, id=job["id"])

    async def rescue(self) -> None:
        """What a supervisor does with leases that have run out."""
        for job in await self.store.abandoned_jobs((), self.clock.at, 100):
            lost = Lost("no renewal")
            settled = settle(job, lost, self.clock.at, 0.5)
            settlement = Settlement(job=settled, attempt=attempt_of(job, lost, self.clock.at))
            assert all(await self.store.settle([settlement]))

    async def sealed(self, id: str, number: int) -> str:
        """The token as whoever was given it knows it."""
        return (await fence_of(self.store)).seal(JobId(id), Token(number))

    async def tell(
        self, message: Any, token: int | str | None = None, **more: Any
    ) -> ResultJudgement:
        """As a broker brings it; a number as the token is sealed."""
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        if isinstance(token, int):
            token = await self.sealed(message["id"], token)
        return await settle_result(self.context, text, token=token, **more)

    async def letters(self) -> Sequence[DeadLetter]:
        return await self.store.dead_letters(None, 100)


@pytest.fixture
def office() -> RemoteWorkerHarness:
    return RemoteWorkerHarness()


# Claiming


async def test_a_job_is_given_out_as_the_call_of_the_protocol(office: RemoteWorkerHarness) -> None:
    id = await office.enqueue(timeout="30s")
    (job,) = await office.take(lease="90s")
    assert job == {
        "jsonrpc": "2.0",
        "method": "export",
        "params": {"objectID": 23, "attempt": 1},
        "id": id,
        "token": await office.sealed(id, 1),
        "attempt": 1,
        "deadline": "2026-03-02T12:00:30Z",
        "lease_until": "2026-03-02T12:01:30Z",
    }
    shown = await office.show(job)
    assert (shown["state"], shown["attempts"][0]["worker"]) == ("running", "remote:exporter-1")


async def test_arguments_by_place_stand_in_args(office: RemoteWorkerHarness) -> None:
    await office.enqueue(args=[1, "a"])
    (job,) = await office.take()
    assert job["params"] == {"objectID": 23, "args": [1, "a"], "attempt": 1}
    assert job["deadline"] is None


async def test_a_lease_is_a_minute_unless_said(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    assert job["lease_until"] == "2026-03-02T12:01:00Z"


async def test_only_its_own_tasks_and_queues_are_given_out(office: RemoteWorkerHarness) -> None:
    await office.enqueue(task="other")
    await office.enqueue(queue="slow")
    assert await office.take(queues=["default", "mail"]) == []
    assert len(await office.take(queues=["slow"])) == 1
    await office.enqueue(queue="slow")
    assert len(await office.take(queues=None)) == 1


async def test_one_is_given_out_unless_more_are_asked_for(office: RemoteWorkerHarness) -> None:
    for _ in range(5):
        await office.enqueue()
    assert len(await office.take()) == 1
    assert len(await office.take(limit=3)) == 3
    assert len(await office.take(limit=1_000)) == 1


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ({"worker": ""}, Invalid, "worker"),
        ({"worker": "x" * 201}, Invalid, "worker"),
        ({"tasks": []}, Invalid, "tasks"),
        ({"tasks": ["a", "@http"]}, Invalid, "tasks[1]"),
        ({"tasks": "export"}, Malformed, "tasks"),
        ({"limit": 0}, Invalid, "limit"),
        ({"limit": 1_001}, Invalid, "limit"),
        ({"lease": "0.5s"}, Invalid, "lease"),
        ({"lease": "61m"}, Invalid, "lease"),
        ({"lease": "long"}, Invalid, "lease"),
        ({"colour": "red"}, Invalid, "colour"),
    ],
)
async def test_a_claim_that_cannot_be_names_its_field(
    office: RemoteWorkerHarness, body: dict[str, Any], kind: type[Any], field: str
) -> None:
    with pytest.raises(kind) as caught:
        await office.take(**body)
    assert caught.value.field == field


# Leases


async def test_a_renewed_lease_lasts_from_then(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    office.move(seconds=50)
    assert await office.renew(job, lease="2m") == {
        "lease_until": "2026-03-02T12:02:50Z",
        "cancel_reason": None,
    }
    office.move(seconds=100)
    await office.rescue()
    assert (await office.settle(job, result=1))["state"] == "succeeded"


async def test_a_lease_that_ran_out_is_lost(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    office.move(seconds=61)
    await office.rescue()
    for attempt in (office.renew(job), office.settle(job, result=1), start(office, job)):
        with pytest.raises(LeaseLost):
            await attempt
    (again,) = await office.take()
    assert (again["token"], again["attempt"]) == (await office.sealed(again["id"], 2), 2)
    with pytest.raises(LeaseLost, match="another lease"):
        await office.settle(job, result=1)
    assert (await office.settle(again, result=1))["settled"] is True


async def start(office: RemoteWorkerHarness, job: dict[str, Any], **body: Any) -> dict[str, Any]:
    return await office.ask(JOB_START, {"token": job["token"], **body}, id=job["id"])


async def test_a_job_that_was_announced_is_fetched(office: RemoteWorkerHarness) -> None:
    job = await office.given(args=["large"])
    office.move(seconds=30)
    answer = await start(office, job)
    assert answer == {**job, "lease_until": "2026-03-02T12:01:30Z"}
    assert (await start(office, job, lease="1s"))["lease_until"] == "2026-03-02T12:01:30Z"


async def test_who_renews_hears_of_a_cancel(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    await office.ask(JOB_CANCEL, {"reason": "enough"}, id=job["id"])
    assert (await office.renew(job))["cancel_reason"] == "enough"
    assert (await office.settle(job, error={"code": 1, "message": "stopped"})) == {
        "settled": True,
        "state": "cancelled",
    }


async def test_a_job_that_succeeded_although_it_was_to_stop_has_succeeded(
    office: RemoteWorkerHarness,
) -> None:
    job = await office.given()
    await office.ask(JOB_CANCEL, id=job["id"])
    assert (await office.settle(job, result=None))["state"] == "succeeded"


async def test_a_worker_with_a_row_is_not_to_be_renewed_from_elsewhere(
    office: RemoteWorkerHarness,
) -> None:
    id = await office.enqueue()
    await office.hire("export")
    await office.claim("export")
    with pytest.raises(LeaseLost):
        await office.renew({"id": id, "token": await office.sealed(id, 1)})


async def test_nothing_has_that_id(office: RemoteWorkerHarness) -> None:
    id = office.context.fresh_id()
    unknown = {"id": id, "token": await office.sealed(id, 1)}
    for attempt in (
        office.renew(unknown),
        office.settle(unknown, result=1),
        start(office, unknown),
    ):
        with pytest.raises(NotFound):
            await attempt


# Settling


async def test_a_result_is_kept(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    assert await office.settle(job, result={"rows": [1, 2]}) == {
        "settled": True,
        "state": "succeeded",
    }
    shown = await office.show(job)
    assert shown["result"] == {"rows": [1, 2]}
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["succeeded"]


async def test_an_error_is_a_failed_attempt(office: RemoteWorkerHarness) -> None:
    job = await office.given(retry={"attempts_max": 2, "delay": "10s", "jitter": False})
    answer = await office.settle(job, error={"code": -1234, "message": "no room"})
    assert answer == {"settled": True, "state": "waiting"}
    shown = await office.show(job)
    assert shown["error"] == "no room (code -1234)"
    assert shown["run_at"] == "2026-03-02T12:00:10Z"
    office.move(seconds=10)
    (again,) = await office.take()
    error = {"code": "7", "message": "again", "data": "Traceback\n  line"}
    assert (await office.settle(again, error=error))["state"] == "failed"
    assert (await office.show(job))["error"] == "Traceback\n  line\nagain (code 7)"


@pytest.mark.parametrize(
    "more",
    [{"retryable": False}, {"data": {"retryable": False}}],
)
async def test_an_error_may_be_final(office: RemoteWorkerHarness, more: dict[str, Any]) -> None:
    job = await office.given()
    error = {"code": 1, "message": "never", **more}
    assert (await office.settle(job, error=error))["state"] == "failed"


@pytest.mark.parametrize("more", [{"retry_after": "5m"}, {"data": {"retry_after": 300}}])
async def test_an_error_may_ask_for_a_wait(
    office: RemoteWorkerHarness, more: dict[str, Any]
) -> None:
    job = await office.given(retry={"delay": 0})
    await office.settle(job, error={"code": 1, "message": "busy", **more})
    assert (await office.show(job))["run_at"] == "2026-03-02T12:05:00Z"


@pytest.mark.parametrize(
    "more",
    [{"retry_after": "3d"}, {"data": {"retry_after": 86_400}}],
)
async def test_a_wait_is_a_day_at_most(office: RemoteWorkerHarness, more: dict[str, Any]) -> None:
    job = await office.given(retry={"delay": 0})
    await office.settle(job, error={"code": 1, "message": "busy", **more})
    assert (await office.show(job))["run_at"] == "2026-03-03T12:00:00Z"


@pytest.mark.parametrize("wait", ["soon", -1, 1e300, 86_401, None, [], "P1M"], ids=str)
async def test_data_may_hold_what_it_likes(office: RemoteWorkerHarness, wait: Any) -> None:
    job = await office.given(retry={"delay": 0})
    data = {"retry_after": wait, "retryable": "perhaps"}
    await office.settle(job, error={"code": 1, "message": "busy", "data": data})
    assert (await office.show(job))["run_at"] == "2026-03-02T12:00:00Z"


async def test_a_snooze_costs_no_attempt(office: RemoteWorkerHarness) -> None:
    job = await office.given(retry=ONCE)
    assert (await office.settle(job, snooze="10m"))["state"] == "waiting"
    office.move(minutes=10)
    (again,) = await office.take()
    assert (again["attempt"], again["token"]) == (1, await office.sealed(again["id"], 2))


async def test_a_worker_may_cancel_and_hand_back(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    assert (await office.settle(job, release=True))["state"] == "waiting"
    (again,) = await office.take()
    assert (again["attempt"], again["token"]) == (1, await office.sealed(again["id"], 2))
    assert (await office.settle(again, cancel="not needed"))["state"] == "cancelled"
    assert (await office.show(job))["reason"] == "not needed"


REPORTS = [
    {"result": {"a": 1}},
    {"result": None},
    {"error": {"code": 1, "message": "m"}},
    {"error": {"code": 1, "message": "m" * 10_000}},
    {"error": {"code": 1, "message": "m", "retryable": False}},
    {"error": {"code": -32601, "message": "Method not found"}},
    {"snooze": "5m"},
    {"cancel": "c"},
    {"release": True},
]


@pytest.mark.parametrize("report", REPORTS, ids=str)
async def test_the_same_report_is_answered_again(
    office: RemoteWorkerHarness, report: dict[str, Any]
) -> None:
    job = await office.given()
    first = await office.settle(job, **report)
    office.move(seconds=3)
    assert await office.settle(job, **report) == first
    assert len((await office.show(job))["attempts"]) == 1


@pytest.mark.parametrize("report", REPORTS[2:4], ids=["short", "long"])
async def test_it_is_so_too_when_the_job_runs_again(
    office: RemoteWorkerHarness, report: dict[str, Any]
) -> None:
    job = await office.given(retry={"delay": 0})
    await office.settle(job, **report)
    (again,) = await office.take()
    assert (await office.settle(job, **report))["settled"] is True
    assert (await office.settle(again, result=1))["state"] == "succeeded"


@pytest.mark.parametrize(
    "report",
    [{"result": 2}, {"error": {"code": 1, "message": "m"}}, {"snooze": 1}, {"release": True}],
    ids=str,
)
async def test_another_report_of_the_same_attempt_is_too_late(
    office: RemoteWorkerHarness, report: dict[str, Any]
) -> None:
    job = await office.given()
    await office.settle(job, result=1)
    with pytest.raises(LeaseLost, match="succeeded"):
        await office.settle(job, **report)
    assert (await office.show(job))["result"] == 1


@pytest.mark.parametrize("attempt", [0, 2, "7"])
async def test_another_attempt_than_the_one_that_runs_does_not_count(
    office: RemoteWorkerHarness, attempt: int | str
) -> None:
    job = await office.given()
    with pytest.raises(LeaseLost):
        await office.settle(job, attempt=attempt, result=1)


async def test_the_attempt_may_be_a_text(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    assert (await office.settle(job, attempt="1", result=1))["settled"] is True


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ({}, Invalid, "result"),
        ({"result": 1, "snooze": 1}, Invalid, "result"),
        ({"release": False}, Invalid, "result"),
        ({"result": 1, "token": 1}, Malformed, "token"),
        ({"result": 1, "token": None}, Malformed, "token"),
        ({"result": 1, "token": "x" * 101}, Invalid, "token"),
        ({"result": 1, "attempt": "one"}, Malformed, "attempt"),
        ({"snooze": "soon"}, Invalid, "snooze"),
        ({"error": "broken"}, Malformed, "error"),
        ({"error": {"message": 7}}, Malformed, "error.message"),
        ({"error": {"message": "m", "retry_after": "soon"}}, Invalid, "error.retry_after"),
        ({"result": "x" * RESULT_BYTES_MAX}, TooLarge, "result"),
        ({"outcome": 1}, Invalid, "outcome"),
    ],
)
async def test_a_report_that_cannot_be_names_its_field(
    office: RemoteWorkerHarness, body: dict[str, Any], kind: type[Any], field: str
) -> None:
    job = await office.given()
    with pytest.raises(kind) as caught:
        await office.settle(job, **body)
    assert caught.value.field == field
    assert (await office.show(job))["state"] == "running"


async def test_a_worker_that_does_not_know_the_task_gives_it_back(
    office: RemoteWorkerHarness,
) -> None:
    job = await office.given(retry=ONCE)
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    assert (await office.settle(job, **unknown))["state"] == "waiting"
    office.move(minutes=1)
    (again,) = await office.take()
    assert again["attempt"] == 1
    await office.settle(again, **unknown)
    (letter,) = await office.letters()
    assert letter.source == "job.settle"
    assert job["id"] in letter.reason


# Results over a queue


def response(job: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": job["id"], **members}


@pytest.mark.parametrize(
    "members",
    [
        {"result": {"result": "success", "attempt": 1}},
        {"result": {"result": "success", "attempt": "1"}},
        {"result": {"result": "success"}, "attempt": 1},
    ],
    ids=str,
)
async def test_the_example_of_the_protocol_ends_a_job(
    office: RemoteWorkerHarness, members: dict[str, Any]
) -> None:
    job = await office.given()
    judged = await office.tell(response(job, **members), token=1)
    assert judged.verdict is Verdict.SETTLED
    assert judged.outcome == Succeeded(msgspec.Raw(b'{"result":"success"}'))
    shown = await office.show(job)
    assert (shown["state"], shown["result"]) == ("succeeded", {"result": "success"})


@pytest.mark.parametrize("code", [-1234, "5050"])
async def test_an_error_of_the_protocol_is_a_failed_attempt(
    office: RemoteWorkerHarness, code: int | str
) -> None:
    job = await office.given()
    judged = await office.tell(
        response(job, error={"code": code, "message": "m", "attempt": 1}), token=1
    )
    assert (judged.verdict, judged.job.state) == (Verdict.SETTLED, JobState.WAITING)
    assert (await office.show(job))["error"] == f"m (code {code})"


@pytest.mark.parametrize("attempt", [0, 2])
async def test_a_result_counts_only_with_the_current_attempt(
    office: RemoteWorkerHarness, attempt: int
) -> None:
    job = await office.given()
    judged = await office.tell(response(job, result={"attempt": attempt}), token=1)
    assert judged.verdict is Verdict.STALE
    assert (await office.show(job))["state"] == "running"
    assert list(await office.letters()) == []


async def test_a_token_has_to_match(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    assert (await office.tell(response(job, result=1), token=2)).verdict is Verdict.STALE
    assert (await office.tell(response(job, result=1), token=1)).verdict is Verdict.SETTLED
    answer = response(job, result={"attempt": 7})
    assert (await office.tell(answer, token=1)).verdict is Verdict.STALE


@pytest.mark.parametrize("kind", ["result", "error", "beside"])
async def test_the_token_may_stand_in_the_body(office: RemoteWorkerHarness, kind: str) -> None:
    job = await office.given()
    token = job["token"]
    members = {
        "result": {"result": {"n": 1, "token": token}},
        "error": {"error": {"code": 1, "message": "m", "token": token}},
        "beside": {"result": [1], "token": token},
    }[kind]
    judged = await office.tell(response(job, **members))
    assert judged.verdict is Verdict.SETTLED
    if kind == "result":
        assert judged.outcome == Succeeded(msgspec.Raw(b'{"n":1}'))


async def test_a_result_may_have_a_token_of_its_own(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    judged = await office.tell(response(job, result={"token": "session-7"}), token=1)
    assert judged.outcome == Succeeded(msgspec.Raw(b'{"token":"session-7"}'))


async def test_a_released_attempt_changes_nothing_though_its_number_is_the_same(
    office: RemoteWorkerHarness,
) -> None:
    job = await office.given()
    await office.settle(job, release=True)
    (again,) = await office.take(worker="another")
    assert again["attempt"] == job["attempt"] == 1
    stale = {"who": "the first", "attempt": 1}
    assert (await office.tell(response(job, result=stale))).verdict is Verdict.DEAD
    judged = await office.tell(response(job, result=stale | {"token": job["token"]}))
    assert (judged.verdict, judged.outcome) == (Verdict.STALE, None)
    assert (await office.show(job))["state"] == "running"
    assert (await office.settle(again, result={"who": "the second"}))["state"] == "succeeded"
    assert (await office.show(job))["result"] == {"who": "the second"}


# Fenced by the attempt


@pytest.fixture
def lenient() -> RemoteWorkerHarness:
    """An office whose workers know no token."""
    return RemoteWorkerHarness(remote_fence=RemoteFence.ATTEMPT)


SUCCESS = {"result": {"result": "success", "attempt": 1}}


async def test_s3_d01_the_documented_messages_count_by_their_attempt(
    lenient: RemoteWorkerHarness,
) -> None:
    job = await lenient.given()
    error = {"code": -1234, "message": "something bad happened", "attempt": 1}
    judged = await lenient.tell(response(job, error=error))
    assert (judged.verdict, judged.job and judged.job.state) == (Verdict.SETTLED, JobState.WAITING)
    lenient.move(hours=1)
    await lenient.take()
    late = await lenient.tell(response(job, **SUCCESS))
    assert (late.verdict, (await lenient.show(job))["state"]) == (Verdict.STALE, "running")
    current = response(job, result={"result": "success", "attempt": 2})
    for _ in "again":
        assert (await lenient.tell(current)).verdict is Verdict.SETTLED
    assert (await lenient.show(job))["result"] == {"result": "success"}
    assert list(await lenient.letters()) == []


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"result": {"result": "success"}}, "attempt is missing"),
        ({"result": "success"}, "attempt is missing"),
        ({"error": {"code": 1, "message": "m"}}, "attempt is missing"),
        ({"result": {"attempt": 3}}, "had no attempt 3"),
        ({"result": {"attempt": 1}, "token": "1." + "A" * 22}, "not given out"),
    ],
)
async def test_a_result_without_a_token_needs_an_attempt_that_there_was(
    lenient: RemoteWorkerHarness, members: dict[str, Any], why: str
) -> None:
    job = await lenient.given()
    judged = await lenient.tell(response(job, **members))
    assert (judged.verdict, why in judged.reason) == (Verdict.DEAD, True), judged.reason
    assert (await lenient.show(job))["state"] == "running"


async def test_a_token_still_counts_where_the_attempt_would_do(
    lenient: RemoteWorkerHarness,
) -> None:
    job = await lenient.given()
    assert (await lenient.tell(response(job, result=1), token=1)).verdict is Verdict.SETTLED


async def test_a_job_of_a_worker_with_the_store_is_not_ended_by_an_attempt(
    lenient: RemoteWorkerHarness,
) -> None:
    await lenient.enqueue()
    await lenient.hire("export")
    (job,) = await lenient.claim("export")
    judged = await lenient.tell(response({"id": job.id}, **SUCCESS))
    assert judged.verdict is Verdict.STALE
    assert (await lenient.show({"id": job.id}))["state"] == "running"


async def test_an_attempt_alone_ends_no_job_by_default(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    judged = await office.tell(response(job, **SUCCESS))
    assert (judged.verdict, "remote.fence" in judged.reason) == (Verdict.DEAD, True)
    assert (await office.show(job))["state"] == "running"


FORGED = ["", "1", "1.", "1." + "A" * 22, "01." + "A" * 22, "\u0661." + "A" * 22, "9" * 90]


@pytest.mark.parametrize("token", FORGED)
async def test_a_forged_token_changes_nothing_on_any_way(
    office: RemoteWorkerHarness, token: str
) -> None:
    job = await office.given()
    other = await office.given()
    for forged in (token, other["token"]):
        fake = {**job, "token": forged}
        for attempt in (office.settle(fake, result=1), office.renew(fake), start(office, fake)):
            with pytest.raises(LeaseLost, match="not given out"):
                await attempt
        judged = await office.tell(response(job, result={"attempt": 1}), token=forged)
        assert (judged.verdict, "not given out" in judged.reason) == (Verdict.DEAD, True)
    shown = await office.show(job)
    assert (shown["state"], shown["result"]) == ("running", None)
    assert len(await office.letters()) == 2


async def test_a_job_of_a_worker_with_the_store_is_settled_by_that_worker_alone(
    office: RemoteWorkerHarness,
) -> None:
    id = await office.enqueue()
    await office.hire("export")
    (job,) = await office.claim("export")
    held = {"id": id, "token": await office.sealed(id, job.token)}
    for attempt in (office.settle(held, result=1), office.renew(held), start(office, held)):
        with pytest.raises(LeaseLost):
            await attempt
    judged = await office.tell(response(held, result={"by": "forger"}), token=held["token"])
    assert judged.verdict is Verdict.STALE
    assert "has the store" in judged.reason
    assert (await office.show(held))["state"] == "running"


async def test_a_result_that_comes_twice_is_settled_once(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    answer = response(job, result={"attempt": 1, "n": 1})
    for _ in range(2):
        assert (await office.tell(answer, token=1)).verdict is Verdict.SETTLED
    assert len((await office.show(job))["attempts"]) == 1


async def test_a_result_of_an_attempt_that_was_lost_is_stale(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    office.move(seconds=61)
    await office.rescue()
    answer = response(job, result={"n": 1})
    assert (await office.tell(answer, token=1)).verdict is Verdict.STALE
    await office.take()
    assert (await office.tell(answer, token=1)).verdict is Verdict.STALE
    assert (await office.tell(answer, token=2)).verdict is Verdict.SETTLED


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{", "not JSON"),
        (b"7", "must be an object"),
        (b'{"jsonrpc":"2.0","result":{"attempt":1}}', "id is required"),
        ({"jsonrpc": "2.0", "id": "7", "result": {"attempt": 1}}, "Invalid job ID"),
        ({"jsonrpc": "2.0", "id": 7, "result": {"attempt": 1}}, "Invalid job ID"),
        ({"jsonrpc": "1.0", "id": "ID", "result": {"attempt": 1}}, "jsonrpc must be"),
        ({"id": "ID", "result": {"attempt": 1}}, "jsonrpc is required"),
        ({"jsonrpc": "2.0", "id": "ID"}, "either a result or an error"),
        ({"jsonrpc": "2.0", "id": "ID", "result": 1, "error": {}}, "either a result or an error"),
        ({"jsonrpc": "2.0", "id": "ID", "result": 1}, "token is missing"),
        ({"jsonrpc": "2.0", "id": "ID", "result": {"attempt": 1}}, "token is missing"),
        ({"jsonrpc": "2.0", "id": "ID", "result": {"attempt": 1, "token": 1}}, "must be the text"),
        ({"jsonrpc": "2.0", "id": "ID", "result": {"attempt": 1, "token": "1"}}, "not given out"),
        ({"jsonrpc": "2.0", "id": "ID", "error": {"code": 1, "message": "m"}}, "token is"),
        ({"jsonrpc": "2.0", "id": "ID", "result": {"attempt": "one"}}, "whole number"),
        ({"jsonrpc": "2.0", "id": "ID", "result": {"attempt": None}}, "whole number"),
        ({"jsonrpc": "2.0", "id": "OTHER", "result": {"token": "1"}}, "Nothing has the id"),
    ],
    ids=str,
)
async def test_what_can_never_count_is_put_aside(
    office: RemoteWorkerHarness, message: bytes | dict[str, Any], reason: str
) -> None:
    job = await office.given()
    if isinstance(message, dict) and message.get("id") in {"ID", "OTHER"}:
        other = office.context.fresh_id()
        message = {**message, "id": job["id"] if message["id"] == "ID" else other}
    judged = await office.tell(message, headers={"a": "b"})
    assert judged.verdict is Verdict.DEAD
    assert reason in judged.reason
    (letter,) = await office.letters()
    assert (letter.source, letter.reason) == ("onbeat.results", judged.reason)
    assert letter.headers == {"a": "b"}
    assert (await office.show(job))["state"] == "running"


async def test_of_a_message_that_is_put_aside_at_most_a_mebibyte_is_kept(
    office: RemoteWorkerHarness,
) -> None:
    judged = await office.tell(b'"' + b"x" * REQUEST_BYTES_MAX + b'"')
    assert judged.verdict is Verdict.DEAD
    (letter,) = await office.letters()
    assert len(letter.body) == REQUEST_BYTES_MAX


async def test_a_result_that_is_too_large_fails_for_good(office: RemoteWorkerHarness) -> None:
    job = await office.given()
    answer = response(job, result={"x": "x" * RESULT_BYTES_MAX, "attempt": 1})
    judged = await office.tell(answer, token=1)
    assert (judged.verdict, judged.job.state) == (Verdict.SETTLED, JobState.FAILED)
    assert "at most" in judged.job.error


async def test_an_unknown_method_waits_for_another_worker_and_is_put_aside_once(
    office: RemoteWorkerHarness,
) -> None:
    job = await office.given(retry=ONCE)
    answer = response(job, error={"code": -32601, "message": "Method not found", "attempt": 1})
    judged = await office.tell(answer, token=1)
    assert (judged.verdict, judged.outcome) == (Verdict.SETTLED, Snoozed(timedelta(minutes=1)))
    assert judged.job.due_at == NOON + timedelta(minutes=1)
    office.move(minutes=1)
    (again,) = await office.take()
    assert again["attempt"] == 1
    await office.tell(answer, token=2)
    (letter,) = await office.letters()
    assert json.loads(letter.body) == answer


async def test_while_the_store_is_away_a_result_is_not_put_aside(
    office: RemoteWorkerHarness,
) -> None:
    job = await office.given()

    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable

    office.store.settle = away
    with pytest.raises(Unavailable):
        await office.tell(response(job, result={"attempt": 1}), token=1)
    assert list(await office.letters()) == []


async def test_a_job_that_was_sent_on_its_way_can_be_settled_by_its_token(
    office: RemoteWorkerHarness,
) -> None:
    id = await office.enqueue()
    request = ClaimRequest(
        worker=carrier_id("trial:one"), now=NOON, limit=1, lanes=frozenset({"export"})
    )
    (job,) = (await office.store.claim(request)).jobs
    assert job.token == Token(1)
    judged = await office.tell({"jsonrpc": "2.0", "id": id, "result": 1}, token=1)
    assert judged.verdict is Verdict.SETTLED


async def send(office: RemoteWorkerHarness) -> list[dict[str, str]]:
    """Claim what is due as a sender does; the jobs with the tokens that their workers get."""
    request = ClaimRequest(
        worker=calls_id("one"),
        now=office.clock.at,
        limit=10,
        lanes=frozenset({"export"}),
        lease=MINUTE,
    )
    jobs = (await office.store.claim(request)).jobs
    return [{"id": job.id, "token": await office.sealed(job.id, job.token)} for job in jobs]


async def give_back(office: RemoteWorkerHarness) -> None:
    """What a rescuer does with calls whose leases have run out."""
    for job in await office.store.abandoned_jobs((), office.clock.at, 100):
        outcome = Lost(UNANSWERED, Evidence.UNANSWERED, company=0)
        settled = settle(job, outcome, office.clock.at, 0.5)
        attempt = attempt_of(job, outcome, office.clock.at)
        assert all(await office.store.settle([Settlement(job=settled, attempt=attempt)]))


@pytest.mark.parametrize("said", [RemoteWorkerHarness.renew, start])
async def test_a_worker_that_speaks_of_a_call_has_begun_it(
    office: RemoteWorkerHarness, said: Callable[..., Any]
) -> None:
    await office.enqueue()
    (call,) = await send(office)
    assert (await office.show(call))["attempts"][0]["worker"] == "carrier:calls:one"
    await said(office, call)
    await said(office, call)
    assert (await office.show(call))["attempts"][0]["worker"] == "remote:calls:one"
    assert (await office.settle(call, result=1))["state"] == "succeeded"


@pytest.mark.parametrize("over", ["broker", "HTTP"])
async def test_a_result_counts_although_the_lease_is_renewed_at_the_same_time(
    office: RemoteWorkerHarness, over: str
) -> None:
    await office.enqueue()
    (call,) = await send(office)
    settle_in_store = office.store.settle
    renewed: list[Any] = []

    async def renew_before(settlements: Any) -> Any:
        if not renewed:
            renewed.append(await office.renew(call))
        return await settle_in_store(settlements)

    office.store.settle = renew_before
    if over == "HTTP":
        assert (await office.settle(call, result=1))["state"] == "succeeded"
    else:
        judged = await office.tell({"jsonrpc": "2.0", "id": call["id"], "result": 1}, token=1)
        assert judged.verdict is Verdict.SETTLED
    (attempt,) = (await office.show(call))["attempts"]
    assert (len(renewed), attempt["worker"]) == (1, "remote:calls:one")


async def test_a_late_result_of_a_call_that_was_sent_again_does_not_count_for_the_next() -> None:
    """S3-A08, with the fence `attempt`."""
    lenient = RemoteWorkerHarness(remote_fence=RemoteFence.ATTEMPT)
    await lenient.enqueue()
    (call,) = await send(lenient)
    late = {"jsonrpc": "2.0", "id": call["id"], "result": {"attempt": 1}}
    lenient.move(seconds=61)
    await give_back(lenient)
    assert (await lenient.tell(late)).verdict is Verdict.STALE
    lenient.move(seconds=10)
    await send(lenient)
    assert (await lenient.tell(late)).verdict is Verdict.STALE
    again = {"jsonrpc": "2.0", "id": call["id"], "result": {"attempt": 2}}
    assert (await lenient.tell(again)).verdict is Verdict.SETTLED


async def test_an_explanation_says_that_no_worker_answers(office: RemoteWorkerHarness) -> None:
    await office.enqueue()
    (call,) = await send(office)
    why = await office.ask(JOB_WHY, id=call["id"])
    assert (why["state"], why["code"]) == ("running", "sent")
    assert why["explanation"] == (
        "Its call was sent to remote workers at 2026-03-02T12:00:00Z, attempt 1, and no worker has"
        " answered yet; without an answer it is sent again after 2026-03-02T12:01:00Z."
    )
    office.move(seconds=61)
    await give_back(office)
    office.move(seconds=10)
    why = await office.ask(JOB_WHY, id=call["id"])
    assert (why["state"], why["code"]) == ("waiting", "no_answer")
    assert UNANSWERED in why["explanation"]
    for words in ("No worker answered its last call.", "No worker answered its last 2 calls."):
        office.move(seconds=10)
        await send(office)
        assert (await office.ask(JOB_WHY, id=call["id"]))["explanation"].endswith(f" {words}")
        office.move(seconds=61)
        await give_back(office)


async def test_an_explanation_counts_the_calls_that_are_answered_first(
    office: RemoteWorkerHarness,
) -> None:
    for _ in range(2):
        await office.enqueue()
    first, _ = await send(office)
    id = await office.enqueue()
    why = await office.ask(JOB_WHY, id=id)
    words = "2 calls of export wait for remote workers to answer, and others are sent after that."
    assert (why["code"], why["explanation"]) == ("no_answer", words)
    await office.settle(first, result=1)
    assert "1 call of export waits for" in (await office.ask(JOB_WHY, id=id))["explanation"]
    await office.hire("export")
    assert (await office.ask(JOB_WHY, id=id))["code"] == "ready"


async def test_a_call_that_is_to_stop_says_so(office: RemoteWorkerHarness) -> None:
    await office.enqueue()
    (call,) = await send(office)
    await office.ask(JOB_CANCEL, {"reason": "enough"}, id=call["id"])
    assert (await office.ask(JOB_WHY, id=call["id"]))["code"] == "stopping"
    assert (await office.renew(call))["cancel_reason"] == "enough"


async def test_a_job_that_is_retried_by_hand_is_another_matter(office: RemoteWorkerHarness) -> None:
    job = await office.given(retry=ONCE)
    answer = response(job, error={"code": 1, "message": "m", "attempt": 1})
    await office.tell(answer, token=1)
    await office.ask(JOB_RETRY, id=job["id"])
    (again,) = await office.take()
    assert (again["attempt"], again["token"]) == (1, await office.sealed(again["id"], 2))
    assert (await office.tell(answer, token=1)).verdict is Verdict.SETTLED
    assert (await office.show(job))["state"] == "running"


async def test_events_come_beside_the_arguments() -> None:
    office = RemoteWorkerHarness()
    await made_for(office.store, task("export", object=23), an_event("1"), at=NOON)
    (job,) = await office.take()
    assert job["params"]["object"] == 23
    assert [event["id"] for event in job["params"]["events"]] == ["1"]
    started = await office.ask(JOB_START, {"token": job["token"]}, id=job["id"])
    assert started["params"] == job["params"]


async def test_a_job_whose_events_are_gone_fails_when_it_is_claimed() -> None:
    office = RemoteWorkerHarness()
    job = await made_for(office.store, task("export"), at=NOON)
    assert await office.take() == []
    shown = await office.ask(JOB_SHOW, id=job.id)
    assert shown["state"] == "failed"
    assert "prune.events_after" in shown["attempts"][0]["error"]
