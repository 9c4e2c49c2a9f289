"""The settings of the provider's API."""

import asyncio
import json
import logging
from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web

from backoffice.settings import ANSWER_BYTES_MAX, Settings, SettingsApi, SettingsError, settings_of
from outside import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SECRETS, TOKEN, SettingsServer

SETTINGS = Settings(
    region=REGION, bucket=BUCKET, access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY
)


@pytest.fixture
def server_of_settings() -> Iterator[SettingsServer]:
    with SettingsServer() as result:
        yield result


async def test_s1_52_settings_are_fetched_once_in_a_minute(
    server_of_settings: SettingsServer,
) -> None:
    api = SettingsApi(server_of_settings.url, TOKEN)
    answers = await asyncio.gather(*(api.user_settings() for _ in range(10)))
    assert set(answers) == {SETTINGS}
    assert server_of_settings.requests == 1
    api.kept_until -= 61
    server_of_settings.credentials["s3_bucket"] = "another"
    assert (await api.user_settings()).bucket == "another"


@pytest.mark.parametrize("status", [201, 302, 401, 404, 500, 503])
async def test_s1_d36_another_answer_than_200_is_an_error_and_is_asked_again(
    server_of_settings: SettingsServer, status: int
) -> None:
    """Also after the minute: what was valid then may be so no more."""
    api = SettingsApi(f"{server_of_settings.url}/", TOKEN)
    await api.user_settings()
    api.kept_until -= 61
    elsewhere = {"Location": f"{server_of_settings.url}/user/getSettings"}
    server_of_settings.answers = [web.Response(status=status, headers=elsewhere)]
    with pytest.raises(SettingsError, match=f"answered {status}, not 200"):
        await api.user_settings()
    assert await api.user_settings() == SETTINGS
    assert server_of_settings.requests == 3


async def test_an_api_that_is_not_there_is_an_error() -> None:
    with pytest.raises(aiohttp.ClientError):
        await SettingsApi("http://127.0.0.1:1", TOKEN).user_settings()


async def test_an_answer_has_a_bound(server_of_settings: SettingsServer) -> None:
    body = json.dumps({"credentials": server_of_settings.credentials}).encode()
    api = SettingsApi(server_of_settings.url, TOKEN)
    server_of_settings.answers = [web.Response(body=body.ljust(ANSWER_BYTES_MAX + 1))]
    with pytest.raises(SettingsError, match=f"more than {ANSWER_BYTES_MAX} bytes"):
        await api.user_settings()
    server_of_settings.answers = [web.Response(body=body.ljust(ANSWER_BYTES_MAX))]
    assert await api.user_settings() == SETTINGS


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "did not answer JSON"),
        (b"\xff", "did not answer JSON"),
        (b"[" * 100_000, "did not answer JSON"),
        (b"[]", "no object as its `answer`"),
        (b'{"credentials": []}', "no object as its `credentials`"),
        (b'{"credentials": {}}', "`credentials.aws_region` of the settings API is missing"),
        (b'{"credentials": {"aws_region": 7}}', "`credentials.aws_region`"),
        (b'{"credentials": {"aws_region": "a", "s3_bucket": ""}}', "`credentials.s3_bucket`"),
    ],
)
def test_an_answer_in_another_form_names_what_is_missing(answer: bytes, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_of(answer)


async def test_no_secret_is_shown(
    server_of_settings: SettingsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api = SettingsApi(server_of_settings.url, TOKEN)
    shown = [repr(api), repr(await api.user_settings())]
    for body in (SECRET_KEY, json.dumps({"credentials": {"aws_region": [SECRET_KEY]}})):
        server_of_settings.answers = [web.Response(text=body)]
        api.kept_until = 0.0
        with pytest.raises(SettingsError) as failed:
            await api.user_settings()
        shown.append(f"{failed.value!r}")
    text = f"{shown} {caplog.text}"
    assert [secret for secret in SECRETS if secret in text] == []
