"""Credentials in a target, as an endpoint may echo them, and as they are shown."""

import msgspec
import pytest

from onbeat.model.credentials import HIDDEN_ARGS, credentials_of, masked
from onbeat.model.errors import BadRecurrence, RateLimited
from onbeat.model.renamed import warn_renamed
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget

TARGET = HttpTarget(
    "https://user:pass@example.org/in?token=Q%20SECRET&n=1&pin=12",
    headers={"Authorization": "Bearer HEADER", "X-Plain": "plain", "Cookie": 'a="QUOTED"'},
    secret="whsec_SIGNING",
)


def test_credentials_are_found_in_each_form_of_them() -> None:
    found = credentials_of(TARGET)
    assert {"Bearer HEADER", "HEADER", "Q%20SECRET", "Q SECRET", "whsec_SIGNING"} <= {*found}
    assert r"a=\"QUOTED\"" in found
    assert not {"plain", "12", "1"} & {*found}
    assert [len(text) for text in found] == sorted(map(len, found), reverse=True)


def test_a_target_is_shown_without_its_credentials() -> None:
    shown = masked(TARGET)
    assert shown == HttpTarget(
        "https://***@example.org/in?token=***&n=1&pin=***",
        headers={"Authorization": "***", "X-Plain": "plain", "Cookie": "***"},
        secret="***",
    )
    message = MessageTarget("bus", queue="q", headers={"X-Api-Key": "SECRET", "a": "b"})
    assert getattr(masked(message), "headers", None) == {"X-Api-Key": "***", "a": "b"}
    encrypted = HandlerTarget("work", msgspec.Raw(b'"onbeat-encrypted.v1.k.x"'))
    assert getattr(masked(encrypted), "args", None) == HIDDEN_ARGS
    plain = HandlerTarget("work", msgspec.Raw(b"[1]"))
    assert masked(plain) is plain


def test_an_error_of_a_rule_points_at_its_place() -> None:
    assert BadRecurrence("no hour 25", "0 25 * * *", 2).pointed() == (
        "no hour 25\n  0 25 * * *\n    ^"
    )
    assert BadRecurrence("never fires", "FREQ=DAILY").pointed() == "never fires\n  FREQ=DAILY"
    assert BadRecurrence("no X", "DTSTART:1\r\nX:2\r\nY:3", 11).pointed() == "no X\n  X:2\n  ^"


def test_a_refusal_says_when_to_come_back() -> None:
    assert (str(RateLimited("slower", 7)), RateLimited("slower", 7).retry_after) == ("slower", 7)


def test_a_former_name_warns() -> None:
    with pytest.warns(FutureWarning, match="old is called new now"):
        warn_renamed("old", "new")
