"""A mail server, and a server that takes webhooks and chats, in threads of this process."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Mails:
    """`answers` are for the next messages, then all are taken, unless it is `down`."""

    port: int = 0
    answers: list[str] = field(default_factory=list[str])
    down: bool = False
    tried: int = 0
    came: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    """The address and the mail of each."""
    held: threading.Event | None = None
    """While it is not set, no message is answered."""

    @property
    def to(self) -> list[str]:
        """The local parts of the recipients."""
        return sorted(address.partition("@")[0] for address, _ in self.came)

    def texts(self, to: str) -> list[str]:
        mails = [mail for address, mail in self.came if address.startswith(f"{to}@")]
        return [text_of(message_from_bytes(mail, policy=policy.default)) for mail in mails]

    @property
    def ids(self) -> set[bytes]:
        lines = (line for _, mail in self.came for line in mail.splitlines())
        return {line for line in lines if line.startswith(b"Message-ID: ")}

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.tried += 1
        if self.held is not None:
            await server.loop.run_in_executor(None, self.held.wait)
        answer = "451 busy" if self.down else (self.answers.pop(0) if self.answers else "250 OK")
        if answer.startswith("2"):
            self.came += [(to, envelope.content) for to in envelope.rcpt_tos]
        return answer


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    text: str = body.get_content()
    return f"{mail['Subject']}: {text.strip()}"


@contextmanager
def mail_server() -> Iterator[Mails]:
    mails = Mails(port=free_port())
    controller = Controller(mails, hostname="127.0.0.1", port=mails.port)
    controller.start()
    try:
        yield mails
    finally:
        controller.stop()


@dataclass
class Posts:
    """What came: the path and the JSON of each request."""

    port: int = 0
    came: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])


@contextmanager
def post_server() -> Iterator[Posts]:
    posts = Posts()

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.came.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    posts.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield posts
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
