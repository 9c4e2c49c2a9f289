"""Messages to chats and webhooks: their form, and how they are sent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from onbeat.model.channel import ChatHook, Secret, WebhookEndpoint
from onbeat.model.errors import Misconfigured
from onbeat.model.outcome import Failed, Snoozed, Succeeded
from onbeat.rules.channels import read_channel
from onbeat.rules.circuit_breaker import CALLS_MIN
from onbeat.targets.notify.chat import (
    DISCORD_TEXT_MAX,
    DISCORD_TITLE_MAX,
    SLACK_SECTIONS_MAX,
    SLACK_TEXT_MAX,
    SLACK_TITLE_MAX,
    TEAMS_BYTES_MAX,
    chat_target,
    discord_message,
    slack_message,
    teams_message,
)
from onbeat.targets.notify.post import PostChannel
from onbeat.targets.notify.webhook import webhook_target
from targets.notices import a_notice
from targets.runs import JOB_ID, a_runner
from targets.scripted_http_server import Behaviour, ScriptedServer, says

TOKEN = "XXXXXXXXXXXXXXXXXXXXXXXX"
PATH = f"/services/T00000000/B00000000/{TOKEN}"


class TestForms:
    def test_slack_gets_a_header_and_sections(self) -> None:
        assert slack_message("Disk full", "db-1 has 2 %") == {
            "text": "Disk full",
            "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": "Disk full"}},
                {"type": "section", "text": {"type": "mrkdwn", "text": "db-1 has 2 %"}},
            ],
        }

    def test_no_text_calls_everyone_in_slack(self) -> None:
        message = slack_message("<!channel>", "<!here> & <@U1>")
        assert message["text"] == "&lt;!channel&gt;"
        assert message["blocks"][1]["text"]["text"] == "&lt;!here&gt; &amp; &lt;@U1&gt;"

    @pytest.mark.parametrize("text", ["x" * 100_000, "&" * 100_000, "wö " * 30_000])
    def test_slack_gets_no_more_than_it_takes(self, text: str) -> None:
        message = slack_message("T" * 1_000, text)
        header, *sections = (block["text"]["text"] for block in message["blocks"])
        assert len(header) == SLACK_TITLE_MAX
        assert len(sections) == SLACK_SECTIONS_MAX
        assert all(len(section) <= SLACK_TEXT_MAX for section in sections)
        assert sections[-1].endswith("…")
        assert not any(section.endswith(("&", "&a", "&am", "&amp")) for section in sections)

    def test_a_long_text_that_slack_takes_stays_whole(self) -> None:
        text = "".join(chr(97 + n % 26) for n in range(3 * SLACK_TEXT_MAX))
        sections = [block["text"]["text"] for block in slack_message("", text)["blocks"]]
        assert "".join(sections) == text

    def test_teams_gets_an_adaptive_card(self) -> None:
        message = teams_message("Disk full", "db-1")
        (attachment,) = message["attachments"]
        assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert [block["text"] for block in attachment["content"]["body"]] == ["Disk full", "db-1"]

    @pytest.mark.parametrize("text", ["x" * 100_000, '"' * 100_000, "ö" * 100_000, "\x01" * 50_000])
    def test_teams_gets_no_more_than_it_takes(self, text: str) -> None:
        size = len(msgspec.json.encode(teams_message("T" * 5_000, text)))
        assert TEAMS_BYTES_MAX - 10 <= size <= TEAMS_BYTES_MAX

    def test_discord_gets_an_embed_that_calls_nobody(self) -> None:
        assert discord_message("Disk full", "@everyone") == {
            "embeds": [{"title": "Disk full", "description": "@everyone"}],
            "allowed_mentions": {"parse": []},
        }
        assert discord_message("", "x")["embeds"] == [{"description": "x"}]

    def test_discord_gets_no_more_than_it_takes(self) -> None:
        (embed,) = discord_message("T" * 1_000, "x" * 10_000)["embeds"]
        assert (len(embed["title"]), len(embed["description"])) == (
            DISCORD_TITLE_MAX,
            DISCORD_TEXT_MAX,
        )

    @pytest.mark.parametrize("make", [slack_message, teams_message, discord_message])
    def test_a_notice_may_have_a_title_only_or_a_text_only(self, make: Any) -> None:
        for message in (make("only", ""), make("", "only")):
            assert b"only" in msgspec.json.encode(message)


@asynccontextmanager
async def a_chat(
    behave: Behaviour, tmp_path: Path, kind: str = "slack", **runner: Any
) -> AsyncIterator[tuple[ScriptedServer, PostChannel]]:
    file = tmp_path / "url"
    async with ScriptedServer(behave) as server, a_runner(**runner) as callbacks:
        file.write_text(f"{server.url(PATH)}\n")
        hook = ChatHook(kind, Secret(file=str(file)))
        yield server, PostChannel("ops", partial(chat_target, hook), callbacks)


@pytest.mark.parametrize("kind", ["slack", "teams", "discord"])
async def test_a_message_is_posted_as_json(tmp_path: Path, kind: str) -> None:
    async with a_chat(says(body=b"ok"), tmp_path, kind) as (server, channel):
        assert await channel.send(a_notice()) == Succeeded()
    (received,) = server.received
    assert (received.method, received.path) == ("POST", PATH)
    assert received.lower["content-type"] == "application/json"
    assert received.lower["idempotency-key"] == JOB_ID
    assert b"Some words" in msgspec.json.encode(json.loads(received.body))


async def test_a_chat_that_is_busy_says_when_to_come_again(tmp_path: Path) -> None:
    busy = says("429 Too Many Requests", b"slow down", "Retry-After: 30")
    async with a_chat(busy, tmp_path) as (_, channel):
        outcome = await channel.send(a_notice())
    assert outcome == Failed(
        "channel 'ops' answered 429 Too Many Requests: slow down",
        retry_after=timedelta(seconds=30),
    )


async def test_a_chat_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    async with a_chat(says("403 Forbidden", b"invalid_token"), tmp_path) as (_, channel):
        outcome = await channel.send(a_notice())
    assert outcome == Failed("channel 'ops' answered 403 Forbidden: invalid_token", retryable=False)


async def test_the_secret_url_is_in_no_error(tmp_path: Path) -> None:
    body = f"no such hook: {PATH} {TOKEN} B00000000".encode()
    async with a_chat(says("404 Not Found", body), tmp_path) as (server, channel):
        outcome = await channel.send(a_notice())
        assert isinstance(outcome, Failed)
        assert outcome.error == "channel 'ops' answered 404 Not Found: no such hook: *** *** ***"
        assert server.received
    (tmp_path / "url").write_text(f"http://127.0.0.1:1{PATH}")
    async with a_runner() as callbacks:
        hook = ChatHook("slack", Secret(file=str(tmp_path / "url")))
        away = PostChannel("ops", partial(chat_target, hook), callbacks)
        for _ in range(CALLS_MIN):
            outcome = await away.send(a_notice())
            assert outcome == Failed("channel 'ops' failed: no connection could be made")
        later = await away.send(a_notice())
    assert isinstance(later, Snoozed)
    assert TOKEN not in later.reason


async def test_an_address_that_callbacks_may_not_reach_is_refused(tmp_path: Path) -> None:
    async with a_chat(says(), tmp_path, private_allowed=False) as (server, channel):
        outcome = await channel.send(a_notice())
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert "loopback" in outcome.error
    assert server.received == []


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "cannot be read: No such file"), ("  ", "is empty"), ("hooks.slack.com/x", "no URL")],
)
async def test_a_secret_that_is_none_is_told_without_it(
    tmp_path: Path, text: str | None, words: str
) -> None:
    file = tmp_path / "url"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Misconfigured, match=words) as caught:
        chat_target(ChatHook("slack", Secret(file=str(file))), a_notice())
    assert "hooks" not in str(caught.value)


def test_a_secret_may_be_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = ChatHook("slack", Secret(variable="OPS_URL"))
    with pytest.raises(Misconfigured, match="OPS_URL is not set"):
        chat_target(hook, a_notice())
    monkeypatch.setenv("OPS_URL", " https://hooks.slack.com/x ")
    assert chat_target(hook, a_notice()).url == "https://hooks.slack.com/x"


class TestWebhook:
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    async def received(self, notice: Any, **endpoint: Any) -> Any:
        async with ScriptedServer(says()) as server, a_runner() as callbacks:
            place = WebhookEndpoint(server.url("/page?a=1"), **endpoint)
            channel = PostChannel("pager", partial(webhook_target, "pager", place), callbacks)
            assert await channel.send(notice) == Succeeded()
        return server.received[0]

    async def test_a_notice_is_posted_whole(self) -> None:
        received = await self.received(a_notice("ada", html="<b>x</b>"))
        assert received.path == "/page?a=1"
        assert json.loads(received.body) == {
            "id": JOB_ID,
            "channel": "pager",
            "to": "ada",
            "title": "Hello",
            "text": "Some words",
            "html": "<b>x</b>",
        }
        assert "webhook-signature" not in received.lower

    async def test_it_is_signed_as_a_receiver_of_standard_webhooks_expects(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "s").write_text(self.SECRET)
        received = await self.received(a_notice(), secret=Secret(file=str(tmp_path / "s")))
        assert Webhook(self.SECRET).verify(received.body, received.lower)
        assert received.lower["webhook-id"] == JOB_ID

    def test_a_secret_of_another_form_is_told_without_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAGER", "canary")
        place = read_channel("webhook://h/?secret_env=PAGER")
        assert isinstance(place, WebhookEndpoint)
        with pytest.raises(Misconfigured) as caught:
            webhook_target("pager", place, a_notice())
        assert "canary" not in str(caught.value)
