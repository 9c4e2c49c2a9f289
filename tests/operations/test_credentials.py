"""Credentials of a target: hidden in answers, kept in edits, and bound to their origin."""

from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import SECRETS_MAX
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import (
    SCHEDULE_CREATE,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
)
from onbeat.rules.urls import checked_secret
from operations.harness import OperationsHarness

OLD = checked_secret("whsec_" + "A" * 32)
NEW = checked_secret("whsec_" + "B" * 32)
THIRD = checked_secret("whsec_" + "C" * 32)
URL = "https://hooks.example.org/in?to=7&token=QUERYSECRET&api_key=KEYSECRET"
SHOWN_URL = "https://hooks.example.org/in?to=7&token=***&api_key=***"
HEADERS = {"Authorization": "Bearer HEADERSECRET", "X-Api-Key": "APISECRET", "X-Plain": "seen"}
SHOWN_HEADERS = {"Authorization": "***", "X-Api-Key": "***", "X-Plain": "seen"}
HTTP = {"url": URL, "method": "POST", "headers": HEADERS, "secret": OLD}
SCHEDULE = {"name": "call", "key": "call", "every": "1h", "target": {"http": HTTP}}
ELSEWHERE = (
    "https://elsewhere.example.org/in",
    "http://hooks.example.org/in",
    "https://hooks.example.org:8443/in",
)
MESSAGE = {"to": "bus", "queue": "q", "headers": {"authorization": "MESSAGESECRET", "a": "b"}}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness(connections=frozenset({"bus", "other"}))


async def made(office: OperationsHarness, **http: Any) -> ScheduleId:
    body = SCHEDULE | {"target": {"http": HTTP | http}}
    return (await office.ask(SCHEDULE_CREATE, body))["id"]


async def stored(office: OperationsHarness, id: ScheduleId) -> Any:
    return (await office.store.schedule(id)).target


async def refused(
    office: OperationsHarness, operation: Operation, body: dict[str, Any], **named: Any
) -> Invalid:
    with pytest.raises(Invalid) as refusal:
        await office.ask(operation, body, **named)
    assert "SECRET" not in str(refusal.value)
    assert OLD not in str(refusal.value)
    return refusal.value


async def test_no_answer_shows_a_credential(office: OperationsHarness) -> None:
    id = await made(office)
    job = await office.ask(JOB_ENQUEUE, {"target": {"http": HTTP}})
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["callback_url"] == shown["target"]["http"]["url"] == SHOWN_URL
    assert shown["headers"] == shown["target"]["http"]["headers"] == SHOWN_HEADERS
    assert shown["target"]["http"]["secret_set"] is True
    answers = [shown, await office.ask(SCHEDULE_LIST), await office.ask(JOB_SHOW, id=job["id"])]
    for text in map(msgspec.json.encode, answers):
        assert b"SECRET" not in text
        assert OLD.encode() not in text


async def test_what_is_called_has_every_credential(office: OperationsHarness) -> None:
    target = await stored(office, await made(office))
    assert (target.url, target.headers, target.secret) == (URL, HEADERS, OLD)


@pytest.mark.parametrize("url", ELSEWHERE)
async def test_headers_do_not_go_along_to_another_origin(
    office: OperationsHarness, url: str
) -> None:
    id = await made(office, secret=None)
    error = await refused(office, SCHEDULE_UPDATE, {"callback_url": url}, id=id)
    assert error.field == "headers.Authorization"
    assert "give it again" in str(error)
    assert (await stored(office, id)).url == URL


@pytest.mark.parametrize("url", ELSEWHERE)
async def test_the_signing_secret_does_not_go_along_to_another_origin(
    office: OperationsHarness, url: str
) -> None:
    id = await made(office)
    for body in ({"callback_url": url, "headers": {}}, {"target": {"http": {"url": url}}}):
        error = await refused(office, SCHEDULE_UPDATE, body, id=id)
        assert error.field == "target.http.secret"
        assert "null" in str(error)
    assert (await stored(office, id)).url == URL


async def test_what_is_given_again_goes_to_another_origin(office: OperationsHarness) -> None:
    id = await made(office)
    again = {"url": ELSEWHERE[0], "headers": {"Authorization": "Bearer other"}, "secret": NEW}
    await office.ask(SCHEDULE_UPDATE, {"target": {"http": again}}, id=id)
    target = await stored(office, id)
    assert (target.headers, target.secret) == ({"Authorization": "Bearer other"}, NEW)


async def test_a_secret_that_is_taken_away_lets_the_rest_go(office: OperationsHarness) -> None:
    id = await made(office, headers={"X-Plain": "seen"})
    body = {"target": {"http": {"url": ELSEWHERE[0], "secret": None}}}
    await office.ask(SCHEDULE_UPDATE, body, id=id)
    assert (await stored(office, id)).secret is None


@pytest.mark.parametrize(
    "url", ["https://HOOKS.example.org:443/other", "https://hooks.example.org/?token=***"]
)
async def test_credentials_stay_within_their_origin(office: OperationsHarness, url: str) -> None:
    id = await made(office)
    await office.ask(SCHEDULE_UPDATE, {"callback_url": url}, id=id)
    target = await stored(office, id)
    assert (target.headers, target.secret) == (HEADERS, OLD)
    assert target.url.endswith("token=QUERYSECRET" if "***" in url else "/other")


async def test_a_schedule_that_is_sent_back_as_it_was_shown_is_unchanged(
    office: OperationsHarness,
) -> None:
    id = await made(office)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    await office.ask(SCHEDULE_UPDATE, shown, id=id)
    target = await stored(office, id)
    assert (target.url, target.headers, target.secret) == (URL, HEADERS, OLD)


async def test_either_form_may_be_changed_in_what_was_shown(office: OperationsHarness) -> None:
    id = await made(office)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    flat = shown | {"headers": SHOWN_HEADERS | {"X-Plain": "changed"}}
    await office.ask(SCHEDULE_UPDATE, flat, id=id)
    assert (await stored(office, id)).headers == HEADERS | {"X-Plain": "changed"}
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    shown["target"]["http"]["headers"]["authorization"] = "Bearer fresh"
    del shown["target"]["http"]["headers"]["Authorization"]
    await office.ask(SCHEDULE_UPDATE, shown, id=id)
    assert (await stored(office, id)).headers["authorization"] == "Bearer fresh"
    assert (await stored(office, id)).headers["X-Api-Key"] == "APISECRET"


async def test_a_declared_schedule_keeps_what_is_hidden(office: OperationsHarness) -> None:
    id = await made(office)
    http = {"url": SHOWN_URL, "headers": SHOWN_HEADERS, "secret": "***", "method": "POST"}
    body = SCHEDULE | {"target": {"http": http}}
    assert (await office.ask(SCHEDULE_PUT, body, key="call"))["changed"] is False
    assert (await stored(office, id)).headers == HEADERS
    moved = SCHEDULE | {"target": {"http": http | {"url": ELSEWHERE[0]}}}
    error = await refused(office, SCHEDULE_PUT, moved, key="call")
    assert error.field == "target.http.headers.Authorization"


async def test_a_shown_schedule_that_is_declared_as_a_whole_is_unchanged(
    office: OperationsHarness,
) -> None:
    id = await made(office)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (await office.ask(SCHEDULE_PUT, shown, key="call"))["changed"] is False
    assert (await stored(office, id)).secret == OLD


async def test_a_copy_by_an_answer_needs_its_credentials_again(office: OperationsHarness) -> None:
    shown = await office.ask(SCHEDULE_SHOW, id=await made(office, url="https://a.b/", headers={}))
    error = await refused(office, SCHEDULE_CREATE, shown | {"key": "copy"})
    assert error.field == "target.http.secret"


@pytest.mark.parametrize(
    ("http", "field"),
    [
        ({"headers": {"cookie": "***"}}, "headers.cookie"),
        ({"url": "https://hooks.example.org/?token=***"}, "url"),
        ({"secret": "***"}, "secret"),
        ({"secret": [NEW, "***"]}, "secret"),
    ],
)
async def test_nothing_hidden_can_be_created(
    office: OperationsHarness, http: dict[str, Any], field: str
) -> None:
    target = {"target": {"http": {"url": "https://hooks.example.org/"} | http}}
    for operation, body, named in (
        (SCHEDULE_CREATE, SCHEDULE | target, {}),
        (SCHEDULE_PUT, SCHEDULE | target, {"key": "call"}),
        (JOB_ENQUEUE, target, {}),
    ):
        error = await refused(office, operation, body, **named)
        assert error.field == f"target.http.{field}"
        assert "in full" in str(error)


async def test_stars_in_a_header_that_is_no_credential_are_stars(office: OperationsHarness) -> None:
    id = await made(office, headers={"X-Plain": "***"})
    assert (await stored(office, id)).headers == {"X-Plain": "***"}


async def test_headers_of_a_message_belong_to_its_broker(office: OperationsHarness) -> None:
    body = SCHEDULE | {"target": {"message": MESSAGE}}
    id = (await office.ask(SCHEDULE_CREATE, body))["id"]
    shown = (await office.ask(SCHEDULE_SHOW, id=id))["target"]
    assert shown["message"]["headers"] == {"authorization": "***", "a": "b"}
    shown["message"]["queue"] = "other"
    await office.ask(SCHEDULE_UPDATE, {"target": shown}, id=id)
    assert (await stored(office, id)).headers == MESSAGE["headers"]
    shown["message"]["to"] = "other"
    error = await refused(office, SCHEDULE_UPDATE, {"target": shown}, id=id)
    assert error.field == "target.message.headers.authorization"
    assert "another broker" in str(error)


async def test_a_rotation_adds_a_secret_and_takes_the_old_one_away(
    office: OperationsHarness,
) -> None:
    id = await made(office)
    for given, kept in (
        ([NEW, "***"], (NEW, OLD)),
        ("***", (NEW, OLD)),
        ([NEW], NEW),
        ([THIRD, NEW, OLD], (THIRD, NEW, OLD)),
        (["***"], THIRD),
    ):
        body = {"target": {"http": HTTP | {"secret": given}}}
        await office.ask(SCHEDULE_UPDATE, body, id=id)
        assert (await stored(office, id)).secret == kept


@pytest.mark.parametrize(
    ("secret", "field", "why"),
    [
        ([], "secret", f"1 to {SECRETS_MAX}"),
        ([f"whsec_{letter * 32}" for letter in "ABCD"], "secret", f"1 to {SECRETS_MAX}"),
        ([OLD, "whsec_short"], "secret[1]", "24 to 64"),
        ([NEW, NEW], "secret", "twice"),
        ([OLD, "***"], "secret", "twice"),
    ],
)
async def test_bad_lists_of_secrets_are_refused(
    office: OperationsHarness, secret: list[str], field: str, why: str
) -> None:
    id = await made(office)
    body = {"target": {"http": HTTP | {"secret": secret}}}
    error = await refused(office, SCHEDULE_UPDATE, body, id=id)
    assert error.field == f"target.http.{field}"
    assert why in str(error)
