"""Every operation as a method, by the same code and in the same words as REST."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api, openrpc_document
from onbeat.model.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    OnbeatError,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from onbeat.model.limits import REQUEST_BYTES_MAX
from onbeat.operations.invoke import named_fields
from onbeat.operations.table import OPERATIONS, OPERATIONS_BY_NAME
from onbeat.operations.tables.operation import Operation
from onbeat.wire.jsonrpc import APPLICATION_CODES, error_object
from operations.harness import OperationsHarness

ID = "01900000-0000-7000-8000-00000000ffff"
SCHEDULE = {"name": "n", "every": "5m", "target": {"task": "t"}}


class RpcClient:
    def __init__(self) -> None:
        self.office = OperationsHarness()
        self.rest = RestClient(build_api(self.office.context, ApiOptions()))

    async def call(self, method: Any, params: Any = None, **members: Any) -> Any:
        sent = {"jsonrpc": "2.0", "method": method, "id": 1, **members}
        if params is not None:
            sent["params"] = params
        answer = (await self.rest.post("/rpc", sent)).json
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == 1
        return answer

    async def ask(self, method: Any, params: Any = None, **members: Any) -> Any:
        answer = await self.call(method, params, **members)
        assert "error" not in answer, answer
        return answer["result"]

    async def fail(self, method: Any, params: Any = None, **members: Any) -> Any:
        answer = await self.call(method, params, **members)
        assert "result" not in answer, answer
        return answer["error"]


@pytest.fixture
def rpc() -> Any:
    return RpcClient()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_every_operation_is_a_method(rpc: Any, operation: Operation) -> None:
    known = {"id": ID, "key": "k", "name": "q"}
    params = {name: known[name] for name in named_fields(operation) if name in known}
    answer = await rpc.call(operation.name, params)
    if "error" in answer:
        assert answer["error"]["code"] in {-32001, -32602}, answer


async def test_path_query_and_body_are_one_object(rpc: Any) -> None:
    made = await rpc.ask("schedule.create", SCHEDULE)
    changed = {"id": made["id"], "every": "10m"}
    assert (await rpc.ask("schedule.update", changed))["message"].startswith("Schedule updated")
    shown = await rpc.ask("schedule.show", {"id": made["id"]})
    assert shown["every"] == "10m"
    listed = await rpc.ask("schedule.list", {"status": "active", "limit": 5})
    assert [each["id"] for each in listed["schedules"]] == [made["id"]]
    put = await rpc.ask("schedule.put", {"key": "k", **SCHEDULE})
    assert (await rpc.ask("schedule.put", {"key": "k", **SCHEDULE}))["id"] == put["id"]


async def test_jobs_are_enqueued_shown_and_cancelled(rpc: Any) -> None:
    job = await rpc.ask("job.enqueue", {"task": "t", "args": [1], "delay": "10m"})
    many = await rpc.ask("job.enqueue", {"jobs": [{"task": "t"}] * 3})
    assert len(many["ids"]) == 3
    cancelled = await rpc.ask("job.cancel", {"id": job["id"], "reason": "enough"})
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "enough")
    assert (await rpc.ask("job.cancel", {"id": many["ids"][0]}))["state"] == "cancelled"


async def test_params_may_stand_in_order_where_there_is_no_body(rpc: Any) -> None:
    job = await rpc.ask("job.enqueue", {"task": "t"})
    assert (await rpc.ask("job.show", [job["id"]]))["id"] == job["id"]
    assert (await rpc.ask("job.list", ["waiting", None, "t"]))["jobs"][0]["id"] == job["id"]
    assert await rpc.ask("queue.list", []) == await rpc.ask("queue.list", {})


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("job.enqueue", [{"task": "t"}], "params"),
        ("queue.list", [1, 1, 1], "params"),
        ("job.show", [ID, 1], "params"),
        ("job.show", {}, "id"),
        ("job.show", {"id": 7}, "id"),
        ("job.show", {"id": ID, "limit": 5}, "limit"),
        ("job.list", {"limit": 0}, "limit"),
        ("job.list", {"limit": 1001}, "limit"),
        ("job.list", {"state": "asleep"}, "state"),
        (
            "job.enqueue",
            {"jobs": [{"task": "a"}, {"task": "b", "priority": "x"}]},
            "jobs[1].priority",
        ),
        ("job.enqueue", {"task": "t", "colour": "red"}, "colour"),
        ("job.enqueue", {"task": "t", "kwargs": {"n": 2**63}}, "kwargs.n"),
        ("job.enqueue", {"task": "t", "args": ["\0"]}, "args[0]"),
        ("schedule.create", {**SCHEDULE, "every": "soon"}, "every"),
    ],
)
async def test_bad_params_name_their_field(
    rpc: Any, method: str, params: dict[str, Any] | list[dict[str, Any] | int | str], field: str
) -> None:
    error = await rpc.fail(method, params)
    assert error["code"] == -32602
    assert error["data"]["field"] == field
    assert field.partition(".")[0].partition("[")[0] in error["message"]


async def test_faults_are_those_of_rest(rpc: Any) -> None:
    for body in ({}, {"name": "n", "rrule": "FREQ=NEVER", "callback_url": "http://x"}):
        answer = (await rpc.rest.post("/api/schedules", body)).error
        error = await rpc.fail("schedule.create", body)
        assert error["message"] == answer.pop("message")
        assert error["data"] == answer


async def test_what_is_not_there_is_told(rpc: Any) -> None:
    assert await rpc.fail("job.show", {"id": ID}) == {
        "code": -32001,
        "message": "Job not found",
        "data": {"code": "not_found"},
    }


async def test_params_have_the_bound_of_a_body(rpc: Any) -> None:
    error = await rpc.fail("schedule.create", {"name": "x" * REQUEST_BYTES_MAX})
    assert (error["code"], error["data"]["code"]) == (-32005, "too_large")
    jobs = [{"task": "t", "args": ["x" * 300]} for _ in range(5_000)]
    assert len((await rpc.ask("job.enqueue", {"jobs": jobs}))["ids"]) == 5_000


async def test_changes_are_told_to_the_log(rpc: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await rpc.ask("queue.pause", {"name": "mail"})
    assert "queue.paused queue=mail" in caplog.text


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (NotFound(), -32001, "not_found"),
        (Conflict(), -32002, "conflict"),
        (Unauthorized(), -32003, "unauthorized"),
        (Forbidden(), -32004, "forbidden"),
        (TooLarge("x"), -32005, "too_large"),
        (Unavailable(), -32006, "unavailable"),
        (LeaseLost(), -32008, "lease_lost"),
        (Invalid("x"), -32602, "validation_failed"),
    ],
)
def test_every_error_has_its_code(error: Any, code: int, name: str) -> None:
    answer = error_object(error)
    assert (answer.code, answer.message, answer.data.code) == (code, str(error), name)


def test_an_error_without_a_code_of_its_own_is_an_internal_one() -> None:
    assert error_object(OnbeatError("x")).code == -32603


# The document

DOCUMENT = openrpc_document()
METHODS = {method["name"]: method for method in DOCUMENT["methods"]}


async def test_the_document_is_served_and_discovered(rpc: Any) -> None:
    assert (await rpc.rest.get("/rpc/openrpc.json")).json == DOCUMENT
    assert await rpc.ask("rpc.discover") == DOCUMENT


def test_every_method_is_in_the_document() -> None:
    assert set(METHODS) == {*OPERATIONS_BY_NAME, "rpc.discover"}


def references(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_leads_somewhere() -> None:
    result = set(references(DOCUMENT))
    assert result
    for reference in result:
        _, place, kind, name = reference.split("/")
        assert name in DOCUMENT[place][kind], reference


@pytest.mark.parametrize("name", METHODS)
def test_params_are_described_as_they_are_taken(name: str) -> None:
    method = METHODS[name]
    names = [param["name"] for param in method["params"]]
    assert len(set(names)) == len(names)
    operation = OPERATIONS_BY_NAME.get(name)
    if operation is None:
        return
    assert tuple(names[: len(named_fields(operation))]) == named_fields(operation)
    by_place = operation.body is None
    assert method["paramStructure"] == ("either" if by_place else "by-name")
    assert by_place is (len(names) == len(named_fields(operation)))


def test_what_is_needed_is_said() -> None:
    needed = {
        name: [param["name"] for param in method["params"] if param["required"]]
        for name, method in METHODS.items()
    }
    assert needed["schedule.create"] == ["name"]
    assert needed["job.show"] == ["id"]
    assert needed["job.claim"] == ["worker", "tasks"]
    assert needed["job.settle"] == ["id", "token"]


def test_the_table_of_errors_is_whole() -> None:
    codes = {error["code"] for error in DOCUMENT["components"]["errors"].values()}
    assert codes == {-32700, -32600, -32601, -32602, -32603, *APPLICATION_CODES.values()}
    assert json.dumps(DOCUMENT)
