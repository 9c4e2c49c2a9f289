"""Services by Apprise, with a real one: JSON to a server of our own."""

import json
from pathlib import Path

import pytest

from onbeat.model.channel import AppriseService, Secret
from onbeat.model.errors import Misconfigured
from onbeat.model.outcome import Failed, Snoozed, Succeeded
from onbeat.rules.circuit_breaker import CALLS_MIN
from onbeat.targets.breaker import Breakers
from onbeat.targets.notify.more import AppriseChannel
from targets.notices import a_notice
from targets.runs import CLOCK
from targets.scripted_http_server import ScriptedServer, says

# A module that Apprise loads is leaving Python, and Apprise can do without.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def a_channel(folder: Path, url: str) -> AppriseChannel:
    file = folder / "apprise-url"
    file.write_text(url)
    return AppriseChannel("sms", AppriseService(Secret(file=str(file))), Breakers(CLOCK))


async def test_a_notice_goes_to_the_service_of_the_url(tmp_path: Path) -> None:
    async with ScriptedServer(says()) as server:
        url = server.url("/send").replace("http:", "json:")
        assert await a_channel(tmp_path, url).send(a_notice()) == Succeeded()
        assert await a_channel(tmp_path, url).send(a_notice(title=None)) == Succeeded()
        assert await a_channel(tmp_path, url).send(a_notice(text=None)) == Succeeded()
    bodies = [json.loads(one.body) for one in server.received]
    assert [(body["title"], body["message"]) for body in bodies] == [
        ("Hello", "Some words"),
        ("", "Some words"),
        ("", "Hello"),
    ]


async def test_the_recipient_is_put_in_its_place_and_adds_nothing_else(tmp_path: Path) -> None:
    async with ScriptedServer(says()) as server:
        url = server.url("/to/").replace("http:", "json:") + "{to}/end"
        channel = a_channel(tmp_path, url)
        assert await channel.send(a_notice("+49 30/1?x=2@evil")) == Succeeded()
    assert server.received[0].path.startswith("/to/")
    assert server.received[0].path.endswith("/end")
    assert server.received[0].lower["host"].startswith("127.0.0.1")


async def test_a_recipient_needs_a_place_and_a_place_a_recipient(tmp_path: Path) -> None:
    without = await a_channel(tmp_path, "json://h/").send(a_notice("ada"))
    assert without == Failed("channel 'sms': its URL has no {to}", retryable=False)
    lacking = await a_channel(tmp_path, "json://h/{to}").send(a_notice())
    assert lacking == Failed("channel 'sms': it needs a recipient", retryable=False)


async def test_a_failure_is_tried_again_and_soon_left_alone(tmp_path: Path) -> None:
    async with ScriptedServer(says("500 Oops")) as server:
        channel = a_channel(tmp_path, server.url("/").replace("http:", "json:"))
        for _ in range(CALLS_MIN):
            outcome = await channel.send(a_notice())
            assert outcome == Failed("channel 'sms': the service failed")
        assert isinstance(await channel.send(a_notice()), Snoozed)
    assert len(server.received) == CALLS_MIN


@pytest.mark.parametrize(
    "url", ["no url at all", "json://a/ json://b/", "nosuch://canary", "json://"]
)
async def test_what_is_no_url_of_apprise_is_told_without_it(tmp_path: Path, url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        await a_channel(tmp_path, url).send(a_notice())
    assert "canary" not in str(caught.value)
