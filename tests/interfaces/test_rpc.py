"""JSON-RPC 2.0 to the letter: the specification's own examples, and what it says beside them."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.bulk import BulkSlots
from onbeat.api.rpc import routes_of
from onbeat.model.errors import Unavailable
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, JSON_DEPTH_MAX
from onbeat.model.limits import RPC_BATCH_MAX as BATCH_MAX
from onbeat.operations.table import OPERATIONS_BY_NAME
from operations.harness import OperationsHarness

KEY = "a-key-of-some-length"
HEARD: list[Any] = []


async def subtract(_operator: Any, call: Any) -> Any:
    params = msgspec.json.decode(call.params)
    first, second = (
        params if isinstance(params, list) else (params["minuend"], params["subtrahend"])
    )
    return first - second


async def add_up(_operator: Any, call: Any) -> Any:
    return sum(msgspec.json.decode(call.params))


async def note(_operator: Any, call: Any) -> None:
    HEARD.append(call.method)


async def get_data(_operator: Any, call: Any) -> Any:
    return ["hello", 5]


async def fall_over(_operator: Any, call: Any) -> None:
    raise ZeroDivisionError("the inner secret")


async def find_no_store(_operator: Any, call: Any) -> None:
    raise Unavailable


METHODS = {
    "subtract": subtract,
    "sum": add_up,
    "update": note,
    "notify_hello": note,
    "notify_sum": note,
    "get_data": get_data,
    "fall_over": fall_over,
    "find_no_store": find_no_store,
}


@pytest.fixture
def rpc() -> Any:
    context, options = OperationsHarness().context, ApiOptions()
    HEARD.clear()
    client = RestClient(
        build_api(
            context,
            options,
            pages=lambda _access: list(routes_of(METHODS, context, options, BulkSlots())),
        )
    )

    async def ask(text: str) -> Any:
        return await client.send("POST", "/rpc", text.encode(), content_type="application/json")

    return ask


PARSE = {"code": -32700, "message": "Parse error"}
INVALID = {"code": -32600, "message": "Invalid Request"}
UNKNOWN = {"code": -32601, "message": "Method not found"}


def result(value: object, id: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "result": value, "id": id}


def error(told: dict[str, Any], id: int | str | None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": told, "id": id}


EXAMPLES = [
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}', result(19, 1)),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}', result(-19, 2)),
    (
        (
            '{"jsonrpc": "2.0", "method": "subtract",'
            ' "params": {"subtrahend": 23, "minuend": 42}, "id": 3}'
        ),
        result(19, 3),
    ),
    (
        (
            '{"jsonrpc": "2.0", "method": "subtract",'
            ' "params": {"minuend": 42, "subtrahend": 23}, "id": 4}'
        ),
        result(19, 4),
    ),
    ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', error(UNKNOWN, "1")),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', error(PARSE, None)),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', error(INVALID, None)),
    (
        (
            '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
            ' {"jsonrpc": "2.0", "method"]'
        ),
        error(PARSE, None),
    ),
    ("[]", error(INVALID, None)),
    ("[1]", [error(INVALID, None)]),
    ("[1,2,3]", [error(INVALID, None)] * 3),
    (
        """[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
        ]""",
        [
            result(7, "1"),
            result(19, "2"),
            error(INVALID, None),
            error(UNKNOWN, "5"),
            result(["hello", 5], "9"),
        ],
    ),
    (
        """[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
        ]""",
        None,
    ),
]


def without_data(answer: Any) -> Any:
    """An answer without what the specification leaves to the server."""
    if isinstance(answer, list):
        return [without_data(each) for each in answer]
    if "error" in answer:
        answer["error"].pop("data", None)
    return answer


@pytest.mark.parametrize(("sent", "told"), EXAMPLES)
async def test_the_examples_of_the_specification(
    rpc: Any, sent: str, told: dict[str, Any] | list[dict[str, Any]] | None
) -> None:
    answer = await rpc(sent)
    if told is None:
        assert (answer.status, answer.body) == (204, b"")
    else:
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert without_data(answer.json) == told


async def test_notifications_are_done(rpc: Any) -> None:
    await rpc('[{"jsonrpc":"2.0","method":"update"},{"jsonrpc":"2.0","method":"notify_sum"}]')
    assert HEARD == ["update", "notify_sum"]


@pytest.mark.parametrize(
    "id", ['"a"', '""', "0", "-7", "1.0", "1e2", "12345678901234567890123", "null", '"\\u00e9"']
)
async def test_an_id_comes_back_as_it_was_sent(rpc: Any, id: str) -> None:
    answer = await rpc(f'{{"jsonrpc":"2.0","method":"get_data","id":{id}}}')
    assert answer.body == b'{"jsonrpc":"2.0","result":["hello",5],"id":%s}' % id.encode()


@pytest.mark.parametrize("id", ["true", "[1]", '{"a":1}'])
async def test_an_id_of_another_kind_is_no_call(rpc: Any, id: str) -> None:
    answer = await rpc(f'{{"jsonrpc":"2.0","method":"get_data","id":{id}}}')
    assert (answer.json["error"]["code"], answer.json["id"]) == (-32600, None)
    assert answer.json["error"]["data"]["field"] == "id"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ('"method":"get_data"', "jsonrpc"),
        ('"jsonrpc":"1.0","method":"get_data"', "jsonrpc"),
        ('"jsonrpc":2.0,"method":"get_data"', "jsonrpc"),
        ('"jsonrpc":"2.0"', "method"),
        ('"jsonrpc":"2.0","method":null', "method"),
        ('"jsonrpc":"2.0","method":"get_data","params":"bar"', "params"),
        ('"jsonrpc":"2.0","method":"get_data","params":1', "params"),
        ('"jsonrpc":"2.0","method":"get_data","params":null', "params"),
    ],
)
async def test_what_is_no_call_is_told_with_its_id_and_its_field(
    rpc: Any, members: str, field: str
) -> None:
    answer = await rpc(f'{{{members},"id":7}}')
    assert answer.status == 200
    assert answer.json["id"] == 7
    assert answer.json["error"]["code"] == -32600
    assert answer.json["error"]["data"]["field"] == field
    assert field in answer.json["error"]["data"]["detail"]


async def test_further_members_are_allowed(rpc: Any) -> None:
    answer = await rpc('{"jsonrpc":"2.0","method":"get_data","id":1,"trace":{"a":1}}')
    assert answer.json["result"] == ["hello", 5]


@pytest.mark.parametrize("method", ["rpc.nonsense", "rpc.", "", "submit", "submit:"])
async def test_other_methods_are_not_found(rpc: Any, method: str) -> None:
    answer = await rpc(json.dumps({"jsonrpc": "2.0", "method": method, "id": 1}))
    assert answer.json == error(UNKNOWN, 1)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "nope", "NaN", '{"jsonrpc":"2.0","method":"sum","params":[Infinity],"id":1}'],
)
async def test_what_is_no_json_is_a_parse_error(rpc: Any, text: str) -> None:
    answer = await rpc(text)
    assert answer.status == 200
    assert without_data(answer.json) == error(PARSE, None)


async def test_a_parse_error_says_where(rpc: Any) -> None:
    answer = await rpc('{"jsonrpc": nope}')
    assert answer.json["error"]["data"] == {
        "code": "invalid_request",
        "detail": "The body is not JSON: Expecting value at character 12",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"jsonrpc":"2.0","method":"get_data","method":"sum","id":1}', "given twice"),
        ("[" * (JSON_DEPTH_MAX + 1) + "]" * (JSON_DEPTH_MAX + 1), "nested deeper"),
        ("[1" + "0" * 5_000 + "]", "too long"),
        (json.dumps([1] * (BATCH_MAX + 1)), "at most 50 calls"),
        ('{"jsonrpc":"2.0","method":"\\ud800","id":7}', "half of a surrogate pair"),
        ('[{"jsonrpc":"2.0","method":"sum","params":["\\ud800"],"id":7}]', "half of a surrogate"),
    ],
)
async def test_what_rest_would_refuse_is_no_call(rpc: Any, text: str, told: str) -> None:
    answer = await rpc(text)
    assert without_data({**answer.json, "error": dict(answer.json["error"])}) == error(
        INVALID, None
    )
    assert told in answer.json["error"]["data"]["detail"]


async def test_a_full_batch_is_answered_in_order(rpc: Any) -> None:
    calls = [{"jsonrpc": "2.0", "method": "sum", "params": [n], "id": n} for n in range(BATCH_MAX)]
    answer = await rpc(json.dumps(calls))
    assert answer.json == [result(n, n) for n in range(BATCH_MAX)]


async def test_what_nobody_foresaw_is_told_to_the_log_alone(
    rpc: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await rpc('{"jsonrpc":"2.0","method":"fall_over","id":1}')
    assert answer.json == error({"code": -32603, "message": "Internal error"}, 1)
    assert "the inner secret" in caplog.text
    assert "the inner secret" not in answer.body.decode()


async def test_a_store_that_is_away_is_told(rpc: Any) -> None:
    answer = await rpc('{"jsonrpc":"2.0","method":"find_no_store","id":1}')
    assert answer.status == 200
    assert answer.json["error"]["code"] == -32006
    assert answer.json["error"]["data"] == {"code": "unavailable"}


async def test_a_notification_that_was_not_done_is_to_be_sent_again(rpc: Any) -> None:
    answer = await rpc('[{"jsonrpc":"2.0","method":"find_no_store"}]')
    assert (answer.status, answer.body) == (503, b"")
    assert answer.headers["retry-after"] == "1"


async def test_the_answers_of_a_batch_have_a_bound(
    rpc: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.operations.jsonrpc.RESPONSE_BYTES_MAX", 80)
    calls = [{"jsonrpc": "2.0", "method": "get_data", "id": n} for n in range(4)]
    answer = await rpc(json.dumps(calls))
    assert [each.get("result") for each in answer.json] == [["hello", 5], ["hello", 5], None, None]
    assert answer.json[3]["error"]["code"] == -32005


# The way in


@pytest.fixture
def app() -> Any:
    return RestClient(build_api(OperationsHarness().context, ApiOptions(keys=(KEY,))))


CALL = {"jsonrpc": "2.0", "method": "queue.list", "id": 1}


async def test_the_keys_are_those_of_rest(app: Any) -> None:
    assert (await app.post("/rpc", CALL)).status == 401
    answer = await app.post("/rpc", CALL, x_api_key=KEY)
    assert answer.json == result(
        {"queues": [], "page": 1, "limit": 10, "total": 0, "counted_at": None}, 1
    )


async def test_the_document_needs_no_key(app: Any) -> None:
    assert (await app.get("/rpc/openrpc.json")).status == 200


async def test_pages_of_other_sites_call_nothing(app: Any) -> None:
    answer = await app.post("/rpc", CALL, x_api_key=KEY, sec_fetch_site="cross-site")
    assert answer.status == 403


async def test_only_posts_are_calls(app: Any) -> None:
    answer = await app.get("/rpc", x_api_key=KEY)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_another_type_of_body_is_refused_in_both_languages(app: Any) -> None:
    answer = await app.send("POST", "/rpc", b"{}", content_type="text/plain", x_api_key=KEY)
    assert answer.status == 400
    assert answer.json["error"]["code"] == -32600
    assert answer.json["id"] is None


@pytest.mark.parametrize("kind", ["application/json-rpc", "application/jsonrequest", None])
async def test_other_names_of_the_type_are_known(app: Any, kind: str | None) -> None:
    headers = {} if kind is None else {"content_type": kind}
    body = json.dumps(CALL).encode()
    assert (await app.send("POST", "/rpc", body, x_api_key=KEY, **headers)).status == 200


async def test_a_body_over_the_cap_is_413(app: Any) -> None:
    length = str(BULK_REQUEST_BYTES_MAX + 1)
    answer = await app.send("POST", "/rpc", b"{}", content_length=length, x_api_key=KEY)
    assert (answer.status, answer.json["error"]["code"]) == (413, -32005)


# Whatever comes

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["2.0", "job.list", "job.settle", "submit:export", "rpc.discover"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "method", "params", "id", "onbeat", "task", "token", "x"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from([*OPERATIONS_BY_NAME, "submit:export"])},
    optional={"params": JSON, "id": JSON, "onbeat": JSON},
)


def is_response(answer: Any) -> Any:
    has_result, has_error = "result" in answer, "error" in answer
    return answer["jsonrpc"] == "2.0" and "id" in answer and has_result is not has_error


@given(JSON | CALLS | st.lists(JSON | CALLS, max_size=3))
def test_whatever_json_comes_is_answered_by_the_protocol(value: Any) -> None:
    async def sent() -> Any:
        client = RestClient(build_api(OperationsHarness().context, ApiOptions()))
        return await client.send("POST", "/rpc", json.dumps(value).encode())

    answer = asyncio.run(sent())
    assert answer.status in {200, 204}
    assert (answer.status == 204) is (answer.body == b"")
    answers = [] if answer.status == 204 else answer.json
    for each in answers if isinstance(answers, list) else [answers]:
        assert is_response(each)
        assert each.get("error", {}).get("code") != -32603


@given(st.binary(max_size=40))
def test_whatever_bytes_come_are_answered(body: Any) -> None:
    async def sent() -> Any:
        client = RestClient(build_api(OperationsHarness().context, ApiOptions()))
        return await client.send("POST", "/rpc", body)

    answer = asyncio.run(sent())
    assert answer.status == 200
    assert all(map(is_response, answer.json if isinstance(answer.json, list) else [answer.json]))
