"""Mail, sent to a server that is real."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from free_ports import free_port
from onbeat.model.channel import MailServer
from onbeat.model.errors import Misconfigured
from onbeat.model.outcome import Failed, Snoozed, Succeeded
from onbeat.rules.channels import read_channel
from onbeat.rules.circuit_breaker import CALLS_MIN
from onbeat.targets.breaker import Breakers
from onbeat.targets.notify.mail import CONNECTIONS_MAX, MailChannel
from targets.notices import MailBox, a_mail_server, a_notice
from targets.runs import CLOCK, JOB_ID

TO = "ada@example.com"


def a_channel(
    port: int, url: str = "smtp://127.0.0.1:{port}?from=Shop%20<shop@example.com>"
) -> MailChannel:
    server = read_channel(url.format(port=port))
    assert isinstance(server, MailServer)
    return MailChannel("mail", server, Breakers(CLOCK), CLOCK)


@asynccontextmanager
async def a_mailer(
    url: str | None = None, **server: Any
) -> AsyncIterator[tuple[MailBox, MailChannel]]:
    async with a_mail_server(**server) as box:
        channel = a_channel(box.port) if url is None else a_channel(box.port, url)
        yield box, channel
        await channel.close()


async def test_a_mail_has_a_sender_a_recipient_a_subject_and_a_text() -> None:
    async with a_mailer() as (box, channel):
        notice = a_notice("Ada L. <ada@example.com>", title="Grüße", text="Zwölf Töne\n")
        assert isinstance(await channel.send(notice), Succeeded)
    (envelope,), (mail,) = box.came, box.messages
    assert (envelope.mail_from, envelope.rcpt_tos) == ("shop@example.com", [TO])
    assert mail["From"] == "Shop <shop@example.com>"
    assert mail["To"] == '"Ada L." <ada@example.com>'
    assert mail["Subject"] == "Grüße"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"].datetime == CLOCK.at.replace(microsecond=0)
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().split() == ["Zwölf", "Töne"]


async def test_the_same_job_has_the_same_message_id_at_every_attempt() -> None:
    async with a_mailer() as (box, channel):
        for _ in range(2):
            await channel.send(a_notice(TO))
    assert [mail["Message-ID"] for mail in box.messages] == [f"<{JOB_ID}@example.com>"] * 2


async def test_a_mail_with_html_has_the_text_beside_it() -> None:
    async with a_mailer() as (box, channel):
        await channel.send(a_notice(TO, text="plain", html="<b>bold</b>"))
        await channel.send(a_notice(TO, text=None, html="<b>only</b>"))
    both, one = box.messages
    assert both.get_content_type() == "multipart/alternative"
    assert both.get_body(("plain",)).get_content().strip() == "plain"
    assert both.get_body(("html",)).get_content().strip() == "<b>bold</b>"
    assert one.get_content_type() == "text/html"


async def test_nothing_in_a_notice_adds_a_header_or_a_recipient() -> None:
    async with a_mailer() as (box, channel):
        # The runner makes titles one line; a channel of its own accord refuses others.
        with pytest.raises(ValueError, match="Header"):
            await channel.send(a_notice(TO, title="a\r\nBcc: eve@example.com"))
        evil = ".\r\nRCPT TO:<eve@example.com>\r\n.\r\nBcc: eve@example.com"
        await channel.send(a_notice(TO, text=evil))
    (envelope,), (mail,) = box.came, box.messages
    assert envelope.rcpt_tos == [TO]
    assert mail["Bcc"] is None
    assert mail.get_content().splitlines() == evil.splitlines()


async def test_a_long_subject_and_a_long_line_arrive_whole() -> None:
    async with a_mailer() as (box, channel):
        await channel.send(a_notice(TO, title="wörter " * 140, text="x" * 20_000))
    (mail,) = box.messages
    assert mail["Subject"].strip() == ("wörter " * 140).strip()
    assert mail.get_content().strip() == "x" * 20_000


@pytest.mark.parametrize(
    ("answer", "retryable"),
    [
        ("450 try later", True),
        ("421 closing", True),
        ("452 too many", True),
        ("550 no such mailbox", False),
        ("554 refused", False),
    ],
)
async def test_an_answer_tells_whether_another_attempt_makes_sense(
    answer: str, retryable: bool
) -> None:
    async with a_mailer() as (box, channel):
        box.answers = [answer]
        outcome = await channel.send(a_notice(TO))
        assert outcome == Failed(
            f"channel 'mail': the server answered {answer}", retryable=retryable
        )
        box.refuses = {TO: answer}
        assert await channel.send(a_notice(TO)) == outcome
    assert box.came == []


async def test_a_server_that_is_away_is_tried_again_and_soon_left_alone() -> None:
    channel = a_channel(free_port())
    outcomes = [await channel.send(a_notice(TO)) for _ in range(CALLS_MIN)]
    assert outcomes == [Failed("channel 'mail': no connection could be made")] * CALLS_MIN
    later = await channel.send(a_notice(TO))
    assert isinstance(later, Snoozed)
    assert "channel 'mail' seems to be down" in later.reason


async def test_notices_that_wait_for_a_silent_server_are_put_off_once_it_seems_down() -> None:
    channel = a_channel(free_port())
    outcomes = await asyncio.gather(*(channel.send(a_notice(TO)) for _ in range(5 * CALLS_MIN)))
    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    assert CALLS_MIN <= len(failed) < CALLS_MIN + CONNECTIONS_MAX
    assert all(isinstance(one, Snoozed) for one in outcomes if one not in failed)


async def test_a_refused_recipient_does_not_make_the_server_seem_down() -> None:
    async with a_mailer() as (box, channel):
        box.refuses = {TO: "550 no such mailbox"}
        for _ in range(CALLS_MIN + 1):
            assert isinstance(await channel.send(a_notice(TO)), Failed)


async def test_a_silent_server_is_left_when_the_time_of_the_job_is_over() -> None:
    left = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        channel = a_channel(server.sockets[0].getsockname()[1])
        notice = a_notice(TO, job={"timeout": timedelta(seconds=0.2)})
        outcome = await channel.send(notice)
        await left.wait()
    assert outcome == Failed("channel 'mail': the server did not finish in time")


async def test_a_connection_that_breaks_is_worth_another_attempt() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        await reader.readline()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        outcome = await a_channel(server.sockets[0].getsockname()[1]).send(a_notice(TO))
    assert outcome == Failed("channel 'mail': the connection was lost")


async def test_no_more_connections_than_a_server_likes_are_open_at_once() -> None:
    async with a_mailer() as (box, channel):
        await asyncio.gather(*(channel.send(a_notice(TO)) for _ in range(3 * CONNECTIONS_MAX)))
    assert len(box.came) == 3 * CONNECTIONS_MAX
    assert 1 < box.most_open <= CONNECTIONS_MAX


class TestEncryption:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Path:
        self.ca = trustme.CA()
        file = tmp_path / "ca.pem"
        self.ca.cert_pem.write_to_path(str(file))
        return file

    def server_context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context

    async def test_a_connection_is_encrypted_by_starttls(self, authority: Path) -> None:
        url = f"smtp://127.0.0.1:{{port}}?from=a@b.c&starttls=true&ca_file={authority}"
        async with a_mailer(url, starttls=self.server_context("127.0.0.1")) as (box, channel):
            assert isinstance(await channel.send(a_notice(TO)), Succeeded)
        assert box.secured == [True]

    async def test_a_connection_is_encrypted_from_its_start(self, authority: Path) -> None:
        url = f"smtps://127.0.0.1:{{port}}?from=a@b.c&ca_file={authority}"
        async with a_mailer(url, tls=self.server_context("127.0.0.1")) as (box, channel):
            assert isinstance(await channel.send(a_notice(TO)), Succeeded)
        assert box.secured == [True]

    async def test_a_server_without_starttls_gets_nothing(self, authority: Path) -> None:
        url = f"smtp://127.0.0.1:{{port}}?from=a@b.c&starttls=true&ca_file={authority}"
        async with a_mailer(url) as (box, channel):
            with pytest.raises(Misconfigured, match="no STARTTLS"):
                await channel.send(a_notice(TO))
        assert box.came == []

    @pytest.mark.parametrize("scheme", ["smtp", "smtps"])
    async def test_a_certificate_for_another_name_is_not_accepted(
        self, authority: Path, scheme: str
    ) -> None:
        context = self.server_context("elsewhere.example")
        more = "&starttls=true" if scheme == "smtp" else ""
        url = f"{scheme}://127.0.0.1:{{port}}?from=a@b.c{more}&ca_file={authority}"
        kind = {"starttls": context} if scheme == "smtp" else {"tls": context}
        async with a_mailer(url, **kind) as (box, channel):
            outcome = await channel.send(a_notice(TO))
        assert "certificate was not accepted" in outcome.error
        assert outcome.retryable
        assert box.came == []

    async def test_the_authorities_of_the_system_do_not_know_this_one(
        self, authority: Path
    ) -> None:
        url = "smtps://127.0.0.1:{port}?from=a@b.c"
        async with a_mailer(url, tls=self.server_context("127.0.0.1")) as (box, channel):
            assert "certificate" in (await channel.send(a_notice(TO))).error
        assert box.came == []


class TestLogin:
    async def test_a_user_logs_in_with_the_password(self) -> None:
        url = "smtp://ada:s%20cret@127.0.0.1:{port}?from=a@b.c"
        async with a_mailer(url, auth=True) as (box, channel):
            assert isinstance(await channel.send(a_notice(TO)), Succeeded)
        assert box.logins == [("ada", "s cret")]

    async def test_the_password_is_read_from_its_file_at_each_login(self, tmp_path: Path) -> None:
        file = tmp_path / "password"
        url = f"smtp://ada@127.0.0.1:{{port}}?from=a@b.c&password_file={file}"
        async with a_mailer(url, auth=True) as (box, channel):
            for password in ("first", "second"):
                file.write_text(f"{password}\n")
                await channel.send(a_notice(TO))
            file.unlink()
            with pytest.raises(Misconfigured, match="No such file"):
                await channel.send(a_notice(TO))
        assert box.logins == [("ada", "first"), ("ada", "second")]

    async def test_the_password_is_read_from_its_variable(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MAIL_WORD", "third")
        url = "smtp://ada@127.0.0.1:{port}?from=a@b.c&password_env=MAIL_WORD"
        async with a_mailer(url, auth=True) as (box, channel):
            await channel.send(a_notice(TO))
        assert box.logins == [("ada", "third")]

    async def test_a_wrong_password_is_final_and_not_in_the_error(self) -> None:
        url = "smtp://ada:wrong@127.0.0.1:{port}?from=a@b.c"
        async with a_mailer(url, auth=True) as (box, channel):
            outcome = await channel.send(a_notice(TO))
        assert outcome.error.startswith("channel 'mail': the server answered 535")
        assert not outcome.retryable
        assert "wrong" not in outcome.error
        assert box.came == []

    async def test_a_user_without_a_password_does_not_log_in_where_there_are_no_logins(
        self,
    ) -> None:
        url = "smtp://ada@127.0.0.1:{port}?from=a@b.c"
        async with a_mailer(url) as (box, channel):
            assert isinstance(await channel.send(a_notice(TO)), Succeeded)
        async with a_mailer(url, auth=True) as (with_logins, channel):
            await channel.send(a_notice(TO))
        assert (len(box.came), with_logins.logins) == (1, [("ada", "")])

    async def test_a_password_that_no_server_asks_for_is_told(self) -> None:
        url = "smtp://ada:x@127.0.0.1:{port}?from=a@b.c"
        async with a_mailer(url) as (box, channel):
            with pytest.raises(Misconfigured, match="offers no login"):
                await channel.send(a_notice(TO))
        assert box.came == []
