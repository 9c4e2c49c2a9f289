"""Mail by SMTP: one connection for each message, a bounded number at once."""

import asyncio
import socket
import ssl
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from functools import cache
from typing import Final

import aiosmtplib
from aiosmtplib import SMTP

from onbeat.model.channel import MailServer
from onbeat.model.errors import Misconfigured
from onbeat.model.outcome import Failed, Outcome, Snoozed, Succeeded
from onbeat.ports.clock import Clock
from onbeat.ports.notices import Notice
from onbeat.rules.channels import ascii_address, split_address
from onbeat.rules.shortage import shortage_in
from onbeat.targets.breaker import Breakers, GuardedCall
from onbeat.targets.descriptors import check_descriptors
from onbeat.targets.notify.secrets import read_secret

CONNECTIONS_MAX: Final = 10  # at once to one server; many refuse more from one client
SECONDS_MAX: Final = 60.0  # of one attempt, unless the job sets another time
ANSWER_CHARS_MAX: Final = 200
CLOSING: Final = 421  # the server is shutting down, or has too many connections
PERMANENT: Final = 500


class MailChannel:
    """Implements `onbeat.ports.notices.NoticeChannel` by an SMTP server.

    Answers 4xx, and errors of the connection, are worth another attempt; answers 5xx are final.
    """

    def __init__(self, name: str, server: MailServer, breakers: Breakers, clock: Clock) -> None:
        self.name = name
        self.server = server
        self.breakers = breakers
        self.clock = clock
        self.connections = asyncio.Semaphore(CONNECTIONS_MAX)

    async def close(self) -> None:
        """Does nothing: no connection outlives its message."""

    async def send(self, notice: Notice) -> Outcome:
        message = message_of(self.server, notice, self.clock.now())
        # The breaker is asked after the wait: by then the server may seem down.
        async with self.connections:
            call = self.breakers.call(f"channel {self.name!r}", notice.run.job)
            if isinstance(call, Snoozed):
                return call
            with call:
                return await self.send_guarded(notice, message, call)

    async def send_guarded(
        self, notice: Notice, message: EmailMessage, call: GuardedCall
    ) -> Outcome:
        job = notice.run.job
        seconds = job.timeout.total_seconds() if job.timeout else SECONDS_MAX
        try:
            async with asyncio.timeout(seconds):
                await self.deliver(message, notice.to or "")
        except aiosmtplib.SMTPResponseException as error:
            return self.refused(error, call)
        except aiosmtplib.SMTPRecipientsRefused as error:
            return self.refused(error.recipients[0], call)
        except Misconfigured:
            call.succeed()
            raise
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            if shortage_in(error) is not None:
                raise
            check_descriptors()
            call.fail(kind_of(error))
            return Failed(f"channel {self.name!r}: {kind_of(error)}")
        call.succeed()
        return Succeeded()

    def refused(self, error: aiosmtplib.SMTPResponseException, call: GuardedCall) -> Failed:
        call.fail(f"answered {error.code}") if error.code == CLOSING else call.succeed()
        words = " ".join(str(error.message).split())[:ANSWER_CHARS_MAX]
        return Failed(
            f"channel {self.name!r}: the server answered {error.code} {words}",
            retryable=error.code < PERMANENT,
        )

    async def deliver(self, message: EmailMessage, to: str) -> None:
        server = self.server
        client = SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.tls,
            start_tls=False,
            tls_context=tls_context(server.ca_file) if server.tls else None,
            local_hostname=own_name(),
            timeout=None,  # one deadline covers the attempt
        )
        async with client:
            await self.encrypt(client)
            await self.log_in(client)
            sender = ascii_address(split_address(server.sender)[1])
            recipient = ascii_address(split_address(to)[1])
            await client.send_message(message, sender=sender, recipients=[recipient])

    async def encrypt(self, client: SMTP) -> None:
        if not self.server.starttls:
            return
        await client.ehlo()
        if not client.supports_extension("starttls"):
            raise Misconfigured("the server offers no STARTTLS, so nothing was sent")
        await client.starttls(tls_context=tls_context(self.server.ca_file))

    async def log_in(self, client: SMTP) -> None:
        """A user without a password logs in with an empty one, if the server knows logins."""
        server = self.server
        if server.user is None:
            return
        await client.ehlo()
        if client.server_auth_methods:
            password = "" if server.password is None else read_secret(server.password)
            await client.login(server.user, password)
        elif server.password is not None:
            raise Misconfigured("the server offers no login, and the channel has a password")


def message_of(server: MailServer, notice: Notice, now: datetime) -> EmailMessage:
    """The message. Its id is made from the job's, so receivers know a repeated one."""
    name, sender = split_address(server.sender)
    message = EmailMessage()
    message["From"] = header_address(name, sender)
    message["To"] = header_address(*split_address(notice.to or ""))
    message["Subject"] = notice.title or ""
    message["Date"] = now
    message["Message-ID"] = f"<{notice.id}@{ascii_address(sender).rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # keeps out-of-office replies away
    if notice.text is not None or notice.html is None:
        message.set_content(notice.text or "")
        if notice.html is not None:
            message.add_alternative(notice.html, subtype="html")
    else:
        message.set_content(notice.html, subtype="html")
    return message


def header_address(name: str, address: str) -> Address:
    return Address(display_name=name, addr_spec=ascii_address(address))


def kind_of(error: Exception) -> str:
    cause = error.__cause__ or error
    match cause if isinstance(cause, ssl.SSLError) else error:
        case ssl.SSLCertVerificationError(verify_message=fault):
            return f"the server's certificate was not accepted ({fault})"
        case ssl.SSLError():
            return "TLS could not be agreed on"
        case TimeoutError():
            return "the server did not finish in time"
        case aiosmtplib.SMTPServerDisconnected():
            return "the connection was lost"
        case _:
            return "no connection could be made"


@cache
def own_name() -> str:
    return socket.gethostname()


@cache
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Raises `Misconfigured` for a file that has no certificates."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise Misconfigured(f"ca_file {ca_file} cannot be read: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
