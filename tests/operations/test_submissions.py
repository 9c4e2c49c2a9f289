"""Work that comes in as `submit:<task>`: over a broker's queue, and at `/rpc`."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat import remote_task
from onbeat.api import ApiOptions, build_api
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.limits import PAYLOAD_BYTES_MAX
from onbeat.model.outcome import Succeeded
from onbeat.model.page import JobFilter
from onbeat.model.remote_task import RemoteTask
from onbeat.operations.submissions import submit
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.operations.tables.schedules import SCHEDULE_CREATE
from onbeat.rules.derived_ids import instant_of
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.counters import Counters
from operations.harness import NOON, OperationsHarness

QUEUE = "onbeat.submit"
EXAMPLE = b'{"jsonrpc":"2.0","method":"submit:export","params":{"objectID":23}}'


class SubmissionHarness(OperationsHarness):
    """An office that knows the task `export`, and plays the broker."""

    def __init__(self, **options: Any) -> None:
        self.told: list[DeadLetter] = []

        async def knows(task: str) -> bool:
            return task in {"export", "mail.welcome"}

        super().__init__(knows_task=knows, on_dead_letter=self.told.append, **options)

    async def send(
        self,
        message: object,
        key: str | None = None,
        **more: Any,
    ) -> Any:
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = await submit(self.context, text, source=QUEUE, key=key, **more)
        return None if answer is None else json.loads(answer)

    async def jobs(self) -> list[Job]:
        page = await self.store.jobs(JobFilter(limit=1_000))
        return sorted(page.items, key=lambda job: job.id)

    async def letters(self) -> Sequence[DeadLetter]:
        return await self.store.dead_letters(None, 100)


@pytest.fixture
def inlet() -> SubmissionHarness:
    return SubmissionHarness()


def call(
    task: str = "export",
    params: dict[str, Any] | list[int | str | None] | None = None,
    **members: Any,
) -> dict[str, Any]:
    sent = {"jsonrpc": "2.0", "method": f"submit:{task}", **members}
    return sent if params is None else {**sent, "params": params}


async def test_the_example_of_the_protocol_becomes_a_job(inlet: SubmissionHarness) -> None:
    assert await inlet.send(EXAMPLE) is None
    (job,) = await inlet.jobs()
    assert job.target.task == "export"
    assert json.loads(bytes(job.target.kwargs)) == {"objectID": 23}
    assert bytes(job.target.args) == b"[]"
    assert (job.state, job.due_at, job.queue) == (JobState.WAITING, NOON, "default")


async def test_with_an_id_it_is_answered(inlet: SubmissionHarness) -> None:
    answer = await inlet.send(call(params={"objectID": "23"}, id=1))
    (job,) = await inlet.jobs()
    assert answer == {"jsonrpc": "2.0", "result": {"id": job.id, "created": True}, "id": 1}


@pytest.mark.parametrize(
    ("params", "args", "kwargs"),
    [
        (None, [], {}),
        ({}, [], {}),
        ([], [], {}),
        ([1, "a", None], [1, "a", None], {}),
        ({"a": {"b": [1.5]}}, [], {"a": {"b": [1.5]}}),
        ({"task": "x", "onbeat": 1, "args": [2]}, [], {"task": "x", "onbeat": 1, "args": [2]}),
    ],
)
async def test_params_are_the_arguments_untouched(
    inlet: SubmissionHarness,
    params: dict[str, Any] | list[int | str | None] | None,
    args: list[int | str | None],
    kwargs: dict[str, Any],
) -> None:
    await inlet.send(call(params=params))
    (job,) = await inlet.jobs()
    assert (json.loads(bytes(job.target.args)), json.loads(bytes(job.target.kwargs))) == (
        args,
        kwargs,
    )


async def test_the_member_onbeat_steers_the_job(inlet: SubmissionHarness) -> None:
    options = {
        "queue": "mail",
        "delay": "10m",
        "priority": -5,
        "unique": "u",
        "timeout": "30s",
        "retry": {"attempts_max": 10},
        "labels": {"team": "a"},
    }
    first = await inlet.send(call(params=[7], id=1, onbeat=options))
    again = await inlet.send(call(params=[8], id=2, onbeat=options))
    assert again["result"] == {"id": first["result"]["id"], "created": False}
    (job,) = await inlet.jobs()
    assert (job.queue, job.priority, job.unique) == ("mail", -5, "u")
    assert job.due_at == NOON + timedelta(minutes=10)
    assert job.timeout == timedelta(seconds=30)
    assert (job.retry.attempts_max, job.labels) == (10, {"team": "a"})


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"onbeat": {"colour": "red"}}, "onbeat.colour"),
        ({"onbeat": {"delay": "soon"}}, "onbeat.delay"),
        ({"onbeat": {"priority": "high"}}, "onbeat.priority"),
        ({"onbeat": {"task": "other"}}, "onbeat.task"),
        ({"onbeat": {"args": []}}, "onbeat.args"),
        ({"onbeat": {"expires_at": "2026-01-01T00:00:00Z"}}, "onbeat.expires_at"),
        ({"onbeat": []}, "onbeat"),
        ({"params": {"n": 2**63}}, "params.n"),
        ({"params": {"n": "\0"}}, "params.n"),
        ({"params": ["x" * PAYLOAD_BYTES_MAX]}, "params.args"),
    ],
)
async def test_what_cannot_be_is_answered_and_put_aside(
    inlet: SubmissionHarness, members: dict[str, Any], field: str
) -> None:
    sent = {**call(id="7"), **members}
    answer = await inlet.send(sent)
    assert (answer["id"], answer["error"]["data"]["field"]) == ("7", field)
    assert await inlet.jobs() == []
    (letter,) = await inlet.letters()
    assert (letter.source, letter.at) == (QUEUE, NOON)
    assert letter.reason == answer["error"]["message"]
    assert json.loads(letter.body) == sent
    assert inlet.told == [letter]


async def test_an_unknown_task_is_not_found_and_put_aside(inlet: SubmissionHarness) -> None:
    answer = await inlet.send(call("nonsense", {"objectID": 23}, id=1))
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32601, "Method not found")
    assert "nonsense" in answer["error"]["data"]["detail"]
    (letter,) = await inlet.letters()
    assert "nonsense" in letter.reason
    assert await inlet.jobs() == []


async def test_a_kind_of_target_of_our_own_is_no_task(inlet: SubmissionHarness) -> None:
    await inlet.hire("@http")
    answer = await inlet.send(call("@http", id=1))
    assert answer["error"]["code"] == -32602
    assert "task must not begin with @" in answer["error"]["message"]
    assert await inlet.jobs() == []


@pytest.mark.parametrize("method", ["export", "job.enqueue", "submit", "submit:", "SUBMIT:export"])
async def test_only_submissions_come_in_here(inlet: SubmissionHarness, method: str) -> None:
    answer = await inlet.send({"jsonrpc": "2.0", "method": method, "id": 1})
    assert answer["error"]["code"] == -32601
    assert len(await inlet.letters()) == 1
    assert await inlet.jobs() == []


async def test_a_task_that_a_live_worker_knows_is_known(inlet: SubmissionHarness) -> None:
    await inlet.hire("report")
    await inlet.send(call("report"))
    assert len(await inlet.jobs()) == 1
    inlet.move(minutes=10)
    await inlet.send(call("report"))
    assert len(await inlet.jobs()) == 1
    assert len(await inlet.letters()) == 1


async def test_a_bad_notification_is_put_aside_and_not_answered(inlet: SubmissionHarness) -> None:
    assert await inlet.send(call("nonsense")) is None
    assert len(await inlet.letters()) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"jsonrpc": "2.0", "method": "submit:exp', -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"method":"submit:export"}', -32600),
    ],
)
async def test_what_is_no_call_is_put_aside_as_it_came(
    inlet: SubmissionHarness, text: bytes, code: int
) -> None:
    answer = await inlet.send(text)
    assert (answer["error"]["code"], answer["id"]) == (code, None)
    (letter,) = await inlet.letters()
    assert letter.body == text


async def test_a_batch_is_judged_call_by_call(inlet: SubmissionHarness) -> None:
    answer = await inlet.send([call(id=1), call("nonsense", id=2), call(), 7])
    assert [each.get("id") for each in answer] == [1, 2, None]
    assert [each["error"]["code"] for each in answer[1:]] == [-32601, -32600]
    assert len(await inlet.jobs()) == 2
    assert [json.loads(letter.body) for letter in reversed(await inlet.letters())] == [
        call("nonsense", id=2),
        7,
    ]


# Delivered again


async def test_a_message_that_comes_again_adds_nothing(inlet: SubmissionHarness) -> None:
    for _ in range(3):
        await inlet.send(EXAMPLE, key="m-1", sent_at=NOON - timedelta(seconds=5))
    (job,) = await inlet.jobs()
    assert instant_of(job.id) == NOON - timedelta(seconds=5)
    await inlet.send(EXAMPLE, key="m-2", sent_at=NOON)
    assert len(await inlet.jobs()) == 2


async def test_it_adds_nothing_either_when_its_job_has_ended(inlet: SubmissionHarness) -> None:
    await inlet.send(EXAMPLE, key="m-1", sent_at=NOON)
    await inlet.run(Succeeded(), "export")
    inlet.move(hours=3)
    first = await inlet.send(call(id=1), key="m-1", sent_at=NOON)
    (job,) = await inlet.jobs()
    assert (job.state, first["result"]["id"]) == (JobState.SUCCEEDED, job.id)


async def test_without_a_time_it_is_known_again_for_a_day(inlet: SubmissionHarness) -> None:
    await inlet.send(EXAMPLE, key="m-1")
    inlet.move(hours=11)
    await inlet.send(EXAMPLE, key="m-1")
    inlet.move(hours=24)
    await inlet.send(EXAMPLE, key="m-1")
    assert len(await inlet.jobs()) == 1


async def test_a_key_with_a_time_in_it_is_known_for_longer(inlet: SubmissionHarness) -> None:
    key = inlet.context.fresh_id()
    age = NOON - instant_of(key)
    assert age > timedelta(days=30)
    inlet.clock.at = instant_of(key) + timedelta(minutes=1)
    await inlet.send(EXAMPLE, key=key)
    inlet.move(days=20)
    await inlet.send(EXAMPLE, key=key)
    (job,) = await inlet.jobs()
    assert instant_of(job.id) == instant_of(key)


@pytest.mark.parametrize("days", [-31, 2, 30_000])
async def test_a_time_that_cannot_be_is_not_believed(inlet: SubmissionHarness, days: int) -> None:
    await inlet.send(EXAMPLE, key="m-1", sent_at=NOON + timedelta(days=days))
    (job,) = await inlet.jobs()
    assert instant_of(job.id) == NOON.replace(hour=0)


async def test_the_same_key_from_elsewhere_is_another_message(inlet: SubmissionHarness) -> None:
    await inlet.send(EXAMPLE, key="m-1", sent_at=NOON)
    await submit(inlet.context, EXAMPLE, source="other", key="m-1", sent_at=NOON)
    assert len(await inlet.jobs()) == 2


async def test_each_call_of_a_batch_has_a_key_of_its_own(inlet: SubmissionHarness) -> None:
    for _ in range(2):
        await inlet.send([call(), call(), call("nonsense")], key="m-1", sent_at=NOON)
    assert len(await inlet.jobs()) == 2
    (letter,) = await inlet.letters()
    assert letter.headers == {"onbeat-key": "m-1/2", "onbeat-sent-at": NOON.isoformat()}


async def test_a_bad_message_is_put_aside_once(inlet: SubmissionHarness) -> None:
    for _ in range(2):
        await inlet.send(b"{", key="m-1", sent_at=NOON, headers={"a": "b"})
    (letter,) = await inlet.letters()
    assert letter.headers["a"] == "b"
    assert letter.headers["onbeat-key"] == "m-1"


async def test_while_the_store_is_away_nothing_is_put_aside(inlet: SubmissionHarness) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable

    kept, inlet.store.enqueue = inlet.store.enqueue, away
    for message in (EXAMPLE, [call(id=1)]):
        with pytest.raises(Unavailable):
            await inlet.send(message, key="m-1", sent_at=NOON)
    inlet.store.enqueue = kept
    await inlet.send(EXAMPLE, key="m-1", sent_at=NOON)
    assert len(await inlet.jobs()) == 1
    assert list(await inlet.letters()) == []


# Over HTTP


@pytest.fixture
def rest(inlet: SubmissionHarness) -> RestClient:
    return RestClient(build_api(inlet.context, ApiOptions()))


async def test_the_example_of_the_protocol_over_http(
    inlet: SubmissionHarness, rest: RestClient
) -> None:
    answer = await rest.send("POST", "/rpc", EXAMPLE, content_type="application/json")
    assert (answer.status, answer.body) == (204, b"")
    (job,) = await inlet.jobs()
    answer = await rest.post("/rpc", call(params=[1], id="x"))
    assert answer.json["result"]["created"] is True
    assert answer.json["result"]["id"] != job.id


async def test_what_cannot_be_is_put_aside_over_http_too(
    inlet: SubmissionHarness, rest: RestClient
) -> None:
    answer = await rest.post("/rpc", [call("nonsense"), call(id=1, onbeat={"delay": "soon"})])
    assert [each["error"]["data"]["field"] for each in answer.json] == ["onbeat.delay"]
    letters = await inlet.letters()
    assert {letter.source for letter in letters} == {"rpc"}
    assert len(letters) == 2


async def test_other_faults_over_http_are_only_answered(
    inlet: SubmissionHarness, rest: RestClient
) -> None:
    await rest.post("/rpc", [{"jsonrpc": "2.0", "method": "nonsense", "id": 1}, 7])
    await rest.send("POST", "/rpc", b"{")
    assert list(await inlet.letters()) == []


async def test_a_submission_while_the_store_is_away_is_to_be_sent_again(
    inlet: SubmissionHarness, rest: RestClient
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable

    inlet.store.enqueue = away
    assert (await rest.send("POST", "/rpc", EXAMPLE)).status == 503
    answer = await rest.post("/rpc", call(id=1))
    assert answer.json["error"]["code"] == -32006


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_duplicate_is_acknowledged_counted_and_logged(
    has_ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """S3-04, S3-A06."""
    counters = Counters()
    inlet = SubmissionHarness(telemetry=CompositeTelemetry(counters))
    keyed = call(params={"objectID": 23}, id=1, onbeat={"unique": "export:23", "unique_for": "1d"})
    first = await inlet.send(keyed, key="message 1")
    if has_ended:
        await inlet.run(Succeeded(), "export")
    again = await inlet.send(keyed, key="message 2")
    assert again["result"] == {"id": first["result"]["id"], "created": False}
    assert len(await inlet.jobs()) == 1
    assert counters.duplicates == {QUEUE: 1}
    assert counters.sent_jobs == {QUEUE: 1}
    assert f"submission.duplicate task=export job={first['result']['id']}" in caplog.text
    assert list(await inlet.letters()) == []
    await inlet.send(keyed, key="message 1")
    assert counters.duplicates == {QUEUE: 1}, "a message delivered again is no duplicate"


async def test_a_declared_task_makes_the_key_unless_the_sender_does() -> None:
    export = remote_task("export", key="{kind}:{objectID}", unique_for="31d")
    inlet = SubmissionHarness(remote_tasks={"export": export})
    params = {"kind": "csv", "objectID": 23}
    await inlet.send(call(params=params))
    await inlet.send(call(params=params, onbeat={"unique": "mine"}))
    await inlet.send(call("mail.welcome", params={}))
    keys = {(job.unique, job.unique_for) for job in await inlet.jobs()}
    assert keys == {("csv:23", timedelta(days=31)), ("mine", None), (None, None)}


@pytest.mark.parametrize("params", [None, {}, {"objectId": 1}, [23]])
async def test_a_missing_param_is_an_error_over_http_and_names_the_field(
    params: Any,
) -> None:
    inlet = SubmissionHarness(remote_tasks={"export": remote_task("export", requires=["objectID"])})
    rest = RestClient(build_api(inlet.context, ApiOptions()))
    answer = await rest.post("/rpc", call(params=params, id=1))
    assert answer.json["error"]["data"]["field"] == "params.objectID"
    (letter,) = await inlet.letters()
    assert letter.reason.startswith("params.objectID is missing")
    assert await inlet.jobs() == []


@pytest.mark.parametrize("name", ["attempt", "args"])
async def test_an_argument_that_a_remote_worker_would_not_get_is_refused(name: str) -> None:
    inlet = SubmissionHarness(remote_tasks={"export": RemoteTask(name="export")})
    call = {"jsonrpc": "2.0", "method": "submit:export", "params": {name: [5], "x": 2}, "id": 1}
    answer = await inlet.send(call)
    assert answer["error"]["data"]["field"] == f"params.{name}"
    (letter,) = await inlet.letters()
    assert f"a param {name} of Onbeat's own" in letter.reason
    job = {"task": "export", "kwargs": {name: 5}}
    schedule = {"name": "n", "every": "1h", "target": job}
    for operation, body, field in (
        (JOB_ENQUEUE, job, f"kwargs.{name}"),
        (JOB_ENQUEUE, {"jobs": [job]}, f"jobs[0].kwargs.{name}"),
        (SCHEDULE_CREATE, schedule, f"target.kwargs.{name}"),
    ):
        with pytest.raises(Invalid) as caught:
            await inlet.ask(operation, body)
        assert caught.value.field == field
    await inlet.ask(JOB_ENQUEUE, job | {"task": "here"})
    assert len(await inlet.jobs()) == 1
