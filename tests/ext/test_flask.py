"""The example of Flask, with the real framework."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask import Flask, jsonify

from ext.examples import load_example
from onbeat.ext.flask import current_beat, init_app
from onbeat.model.errors import RateLimited, Unauthorized, Unavailable

NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("STORE", f"sqlite:///{tmp_path / 'onbeat.db'}")
    module = load_example("flask/shop.py")
    yield module
    module.beat.close()


def test_a_view_sends_a_job_and_shows_it(shop: Any) -> None:
    client = shop.app.test_client()
    with shop.beat.testing(at="2026-11-23T09:00Z") as trial:
        answer = client.post("/orders/7")
        assert answer.status_code == 202
        trial.drain()
        shown = client.get(f"/jobs/{answer.json['job']}").json
        assert (shown["state"], shown["result"]) == ("succeeded", "order 7 is confirmed")
        assert "<td>succeeded<td>1" in client.get("/").text


def test_errors_are_answered_in_the_form_of_the_api(shop: Any) -> None:
    missing = shop.app.test_client().get(f"/jobs/{NOBODY}")
    assert missing.status_code == 404
    assert missing.json["error"]["code"] == "not_found"
    assert set(missing.json["error"]) == {"code", "message"}


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (Unauthorized("who?"), 401, "WWW-Authenticate"),
        (Unavailable("away"), 503, "Retry-After"),
        (RateLimited("slowly", 5), 429, "Retry-After"),
    ],
)
def test_headers_of_errors_say_what_to_do(shop: Any, error: Any, status: Any, header: Any) -> None:
    @shop.app.get("/fail")
    def fail() -> None:
        raise error

    answer = shop.app.test_client().get("/fail")
    assert answer.status_code == status
    assert header in answer.headers


def test_other_values_are_written_as_before(shop: Any) -> None:
    with shop.app.app_context():
        with pytest.raises(TypeError, match="not JSON serializable"):
            jsonify(object())
        assert jsonify({"a": 1}).json == {"a": 1}
        assert jsonify(result=msgspec.Raw(b'{"b": 2}')).json == {"result": {"b": 2}}


def test_without_init_app_the_proxy_says_what_to_do() -> None:
    with Flask("bare").app_context(), pytest.raises(RuntimeError, match="init_app"):
        _ = current_beat.jobs


def test_two_applications_have_their_own(shop: Any) -> None:
    from onbeat import Onbeat

    other, second = Flask("other"), Onbeat("memory://")
    init_app(other, second)
    with other.app_context():
        assert current_beat.jobs is second.jobs
    with shop.app.app_context():
        assert current_beat.jobs is shop.beat.jobs
