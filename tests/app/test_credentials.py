"""Credentials of callbacks, as a program sees them: on its own store, and through a service."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.test_lost_answers import served
from onbeat import Invalid, Onbeat, every, http
from onbeat.api.asgi import build_api
from onbeat.app.call import Call
from onbeat.rules.urls import checked_secret

OLD = checked_secret("whsec_" + "A" * 32)
NEW = checked_secret("whsec_" + "B" * 32)
URL = "https://hooks.example.org/in?token=QUERYSECRET"
SHOWN_URL = "https://hooks.example.org/in?token=***"
HEADERS = {"Authorization": "Bearer HEADERSECRET", "X-Plain": "seen"}
SHOWN = HEADERS | {"Authorization": "***"}


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Onbeat]:
    async with Onbeat(f"sqlite:///{tmp_path}/onbeat.db") as beat:
        yield beat


@pytest.fixture(params=["store", "service"])
async def beat(request: pytest.FixtureRequest, own: Onbeat) -> AsyncIterator[Onbeat]:
    if request.param == "store":
        yield own
        return
    async with served(build_api(own.backend.context)) as port:
        yield Onbeat(f"http://127.0.0.1:{port}")


async def test_a_program_is_shown_no_credentials_and_its_callback_has_them(
    beat: Onbeat, own: Onbeat
) -> None:
    sent = await beat.asend(http("POST", URL, headers=HEADERS, secret=[NEW, OLD]))
    shown = await beat.jobs.aget(sent.id)
    assert (shown.target.http.url, shown.target.http.headers) == (SHOWN_URL, SHOWN)
    assert shown.target.http.secret_set is True
    kept = (await own.backend.store.job(sent.id)).target
    assert (kept.url, kept.headers, kept.secret) == (URL, HEADERS, (NEW, OLD))


@pytest.mark.parametrize(
    "call",
    [
        http("POST", SHOWN_URL),
        http("POST", "https://hooks.example.org/", headers=SHOWN),
        http("POST", "https://hooks.example.org/", secret="***"),
    ],
    ids=["url", "headers", "secret"],
)
async def test_a_job_cannot_be_sent_with_what_is_hidden(beat: Onbeat, call: Call) -> None:
    with pytest.raises(Invalid, match="in full"):
        await beat.asend(call)


async def test_a_declared_schedule_keeps_what_is_hidden_at_its_origin(
    beat: Onbeat, own: Onbeat
) -> None:
    await beat.schedules.aput("k", every("1h"), http("POST", URL, headers=HEADERS, secret=OLD))
    again = http("POST", SHOWN_URL, headers=SHOWN, secret=[NEW, "***"])
    await beat.schedules.aput("k", every("1h"), again)
    kept = (await own.backend.store.schedule_by_key("k")).target
    assert (kept.url, kept.headers, kept.secret) == (URL, HEADERS, (NEW, OLD))
    elsewhere = http("POST", "https://elsewhere.example.org/", headers=SHOWN)
    with pytest.raises(Invalid, match="another origin"):
        await beat.schedules.aput("k", every("1h"), elsewhere)
