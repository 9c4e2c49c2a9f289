"""Servers of mail and HTTP in threads, for programs in other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from aiosmtpd.controller import Controller

from free_ports import free_port


class Mails:
    def __init__(self) -> None:
        self.came: list[tuple[str, str]] = []

    async def handle_DATA(self, _server, _session, envelope) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=policy.default)
        words = mail.get_body(("plain",)).get_content().strip()
        self.came += [(to, f"{mail['Subject']}: {words}") for to in envelope.rcpt_tos]
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[tuple[Mails, int]]:
    mails = Mails()
    controller = Controller(mails, hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        yield mails, controller.port
    finally:
        controller.stop()


@contextmanager
def http_server() -> Iterator[tuple[list[bytes], int]]:
    came: list[bytes] = []

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield came, server.server_port
    finally:
        server.shutdown()
        server.server_close()
