"""JSON-RPC 2.0 without a server: calls as they are read, and answers as they are written."""

import json
from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Conflict, Invalid, Malformed, NotFound
from onbeat.model.limits import RPC_BATCH_MAX
from onbeat.wire.decode import NotJson
from onbeat.wire.jsonrpc import (
    InvalidCall,
    UnknownMethod,
    failure,
    read_call,
    split,
    success,
)

MOST = 100_000
CALL = '{"jsonrpc": "2.0", "method": "job.show", "id": 1}'


def text_of(raw: msgspec.Raw | None) -> str:
    assert raw is not None
    return bytes(raw).decode()


def test_one_call_and_a_batch() -> None:
    assert split(CALL.encode(), MOST) == ([msgspec.Raw(CALL.encode())], False)
    calls, is_batch = split(f"[{CALL}, {CALL[:-2]}2}}]".encode(), MOST)
    assert ([text_of(read_call(call).id) for call in calls], is_batch) == (["1", "2"], True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[]", "at least one"),
        (json.dumps([{}] * (RPC_BATCH_MAX + 1)), f"at most {RPC_BATCH_MAX}"),
        (f"[{CALL}, {CALL}]", "The id 1 is given twice"),
        ('["\\ud800"]', "surrogate"),
    ],
)
def test_a_batch_that_cannot_be_answered_is_refused(body: str, message: str) -> None:
    with pytest.raises(InvalidCall, match=message):
        split(body.encode(), MOST)


def test_what_is_no_json_is_another_error() -> None:
    with pytest.raises(NotJson):
        split(b"{", MOST)


@pytest.mark.parametrize(
    ("text", "message", "id"),
    [
        ("7", "must be an object", "null"),
        ('{"jsonrpc": "2.0", "id": 7}', "method must be a string", "7"),
        ('{"jsonrpc": "2.0", "id": "a", "method": 7}', "method must be a string", '"a"'),
        ('{"jsonrpc": "1.0", "id": 7, "method": "m"}', "jsonrpc must be", "7"),
        ('{"id": 7, "method": "m"}', "jsonrpc must be", "7"),
        ('{"jsonrpc": "2.0", "id": [7], "method": "m"}', "id must be", "null"),
        ('{"jsonrpc": "2.0", "id": 7, "method": "m", "params": 7}', "params must be", "7"),
        ('{"jsonrpc": "2.0", "method": "\\ud800"}', "surrogate", "null"),
    ],
)
def test_a_call_of_another_form_is_refused_under_its_id(text: str, message: str, id: str) -> None:
    with pytest.raises(InvalidCall, match=message) as refused:
        read_call(msgspec.Raw(text.encode()))
    assert bytes(refused.value.id).decode() == id


def test_a_call_without_an_id_is_a_notification() -> None:
    call = read_call(msgspec.Raw(b'{"jsonrpc": "2.0", "method": "m", "params": [1], "key": "k"}'))
    assert (call.method, call.id) == ("m", None)
    assert (text_of(call.params), text_of(call.key)) == ("[1]", '"k"')


def test_a_result_is_answered_under_its_id() -> None:
    assert json.loads(success({"n": 1}, msgspec.Raw(b"7"))) == {
        "jsonrpc": "2.0",
        "result": {"n": 1},
        "id": 7,
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotJson("no"), {"code": -32700, "message": "Parse error"}),
        (InvalidCall("no", "id"), {"code": -32600, "message": "Invalid Request"}),
        (UnknownMethod(), {"code": -32601, "message": "Method not found"}),
        (Invalid("no", "name"), {"code": -32602, "message": "no"}),
        (Malformed("no", "name"), {"code": -32602, "message": "no"}),
        (NotFound("no"), {"code": -32001, "message": "no"}),
        (Conflict("no"), {"code": -32002, "message": "no"}),
        (KeyError("a secret"), {"code": -32603, "message": "Internal error"}),
    ],
)
def test_each_error_has_its_code(error: Exception, expected: dict[str, Any]) -> None:
    given = json.loads(failure(error))
    assert given["id"] is None
    assert {name: given["error"][name] for name in expected} == expected
    assert "a secret" not in json.dumps(given)
