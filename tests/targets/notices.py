"""Notices to send, and servers of mail that do what a test tells them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from onbeat.model.job import Job
from onbeat.model.target import NotifyTarget
from onbeat.ports.notices import Notice
from targets.runs import ARun, a_run


def a_notice(to: str | None = None, *, job: Any = (), **parts: str | None) -> Notice:
    run = a_run("http://x/", job=job)
    return Notice(run=run, to=to, **{"title": "Hello", "text": "Some words", "html": None, **parts})


def a_notice_run(target: NotifyTarget, job: Any = ()) -> ARun:
    run = a_run("http://x/", job=job)
    run.job = Job(
        **{
            name: getattr(run.job, name)
            for name in ("id", "created_at", "due_at", "attempt", "token")
        },
        target=target,
        **dict(job),
    )
    return run


@dataclass
class MailBox:
    """Keeps what comes; `answers` are for the next messages, then all are taken."""

    answers: list[str] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    came: list[Envelope] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    secured: list[bool] = field(default_factory=list)
    port: int = 0
    transports: list[asyncio.Transport] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, _: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("2"):
            self.came.append(envelope)
            self.secured.append(server.transport.get_extra_info("sslcontext") is not None)
        return answer

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: Any, data: Any):
        login = (data.login.decode(), data.password.decode())
        self.logins.append(login)
        return AuthResult(success=login[1] != "wrong", handled=False)

    @property
    def messages(self) -> list[EmailMessage]:
        return [message_from_bytes(bytes_of(one), policy=policy.default) for one in self.came]


def bytes_of(envelope: Envelope) -> bytes:
    assert isinstance(envelope.content, bytes)
    return envelope.content


@asynccontextmanager
async def a_mail_server(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, auth: bool = False
) -> AsyncIterator[MailBox]:
    box = MailBox()

    class Counted(SMTP):
        def connection_made(self, transport: Any) -> None:
            box.transports.append(transport)
            box.open += 1
            box.most_open = max(box.open, box.most_open)
            super().connection_made(transport)

        def connection_lost(self, error: Exception | None) -> None:
            box.open -= 1
            super().connection_lost(error)

    def protocol() -> SMTP:
        return Counted(
            box,
            hostname="mail.test",
            tls_context=starttls,
            require_starttls=starttls is not None,
            auth_require_tls=False,
            auth_exclude_mechanism=() if auth else ("LOGIN", "PLAIN"),
            authenticator=box.authenticate,
            enable_SMTPUTF8=False,
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=tls)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()
        await server.wait_closed()
        for transport in box.transports:
            transport.abort()
