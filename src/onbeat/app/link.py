"""The way to a service elsewhere: one HTTP request, one answer or the error that was told."""

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from onbeat.model.errors import Misconfigured, OnbeatError, Unavailable
from onbeat.telemetry.redaction import without_credentials
from onbeat.wire.problems import ProblemAnswer, error_of

TIMEOUT: Final = aiohttp.ClientTimeout(total=60, sock_connect=5)
PATH_FIELD: Final = re.compile(r"\{(\w+)\}")


class Link:
    """Asks the service at `server`. Raises `Misconfigured` for a URL that cannot be a service's."""

    def __init__(self, server: str, api_key: str | None = None) -> None:
        self.shown = without_credentials(server)
        self.base = server.rstrip("/").removesuffix("/api")
        if urlsplit(self.base).scheme not in {"http", "https"} or not urlsplit(self.base).netloc:
            raise Misconfigured(
                f"{self.shown!r} must be a URL like http://127.0.0.1:8080", key="server"
            )
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None
    ) -> bytes:
        """The content of a good answer; raises what the service told, or `Unavailable`."""
        sent = {**self.headers, "Content-Type": "application/json"} if body else self.headers
        try:
            # A session of its own for every request: whoever calls from plain code has no place
            # where a lasting one would be closed.
            async with (
                aiohttp.ClientSession(timeout=TIMEOUT, trust_env=True) as session,
                session.request(
                    method,
                    self.base + path,
                    params=query,
                    data=body,
                    headers=sent,
                    allow_redirects=False,
                ) as response,
            ):
                return self.judged(response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(
                f"{self.shown} did not answer: {reason_of(error)}; is `onbeat up` running there?"
            ) from error

    def judged(self, status: int, content: bytes) -> bytes:
        if status < 400:
            return content
        try:
            problem = msgspec.json.decode(content, type=ProblemAnswer).error
        except msgspec.DecodeError:
            kind = Unavailable if status >= 500 else OnbeatError
            raise kind(f"{self.shown} answered {status}, and {NOT_ONBEAT}") from None
        raise error_of(problem)

    def strange(self) -> Unavailable:
        """For an answer that cannot be read."""
        return Unavailable(f"{self.shown} answered, and {NOT_ONBEAT}")


NOT_ONBEAT: Final = "not as Onbeat does; check the server's address"


def reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) else str(error)


def path_of(template: str, texts: Mapping[str, str]) -> str:
    """The operation's path with these texts in its places."""
    return PATH_FIELD.sub(lambda found: quote(texts[found[1]], safe=""), template)
