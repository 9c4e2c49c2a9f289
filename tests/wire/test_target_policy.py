"""The policy of a callback, as requests and answers have it."""

from datetime import timedelta

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.model.target import HttpTarget
from onbeat.wire.decode import decode
from onbeat.wire.targets import TargetBody, read_target, target_answer

URL = "https://api.example.com/"


def read(policy: dict[str, object]) -> HttpTarget:
    body = msgspec.json.encode({"http": {"url": URL, **policy}})
    target = read_target(decode(TargetBody, body), "target")
    assert isinstance(target, HttpTarget)
    return target


@pytest.mark.parametrize(
    ("policy", "target"),
    [
        ({}, HttpTarget(URL)),
        ({"success": None, "redirects": None, "connect_timeout": None}, HttpTarget(URL)),
        ({"success": "any"}, HttpTarget(URL, success=("any",))),
        ({"success": [200, "3xx"]}, HttpTarget(URL, success=("200", "3xx"))),
        (
            {"redirects": 2, "connect_timeout": "5s"},
            HttpTarget(URL, redirects=2, connect_timeout=timedelta(seconds=5)),
        ),
    ],
)
def test_a_policy_is_read_and_shown_again(policy: dict[str, object], target: HttpTarget) -> None:
    assert read(policy) == target
    shown = msgspec.json.decode(msgspec.json.encode(target_answer(target)))["http"]
    given = {name: value for name, value in policy.items() if value is not None}
    assert shown == {"url": URL, "method": "GET", **given}


def test_a_connection_may_take_five_minutes() -> None:
    assert read({"connect_timeout": "5m"}).connect_timeout == timedelta(minutes=5)
    with pytest.raises(Invalid, match=r"target\.http\.connect_timeout must be from"):
        read({"connect_timeout": "5m1s"})
