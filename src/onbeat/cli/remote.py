"""Asks a service over HTTP: each request is spelled from the operations' own table."""

import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from onbeat.model.errors import Misconfigured, OnbeatError, Unavailable
from onbeat.operations.table import OPERATIONS_BY_NAME
from onbeat.telemetry.redaction import without_credentials
from onbeat.wire.problems import ProblemAnswer, error_of

ANSWER_SECONDS_MAX: Final = 60.0
CONNECT_SECONDS_MAX: Final = 5.0
PATH_FIELD: Final = re.compile(r"\{(\w+)\}")


class RemoteCaller:
    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self.session = session
        self.server = server

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        asked = OPERATIONS_BY_NAME[operation]
        texts = {name: str(value) for name, value in named.items() if value is not None}
        url = self.server + path_of(asked.path, texts)
        query = {name: text for name, text in texts.items() if f"{{{name}}}" not in asked.path}
        return await self.send(asked.method, url, query, body)

    async def send(
        self, method: str, url: str, query: Mapping[str, str], body: object | None
    ) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        try:
            async with self.session.request(
                method, url, params=query, data=data, headers=headers, allow_redirects=False
            ) as response:
                return answer_of(response.status, await response.read(), self.server)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unreachable(self.server, error) from error


def path_of(template: str, texts: Mapping[str, str]) -> str:
    return PATH_FIELD.sub(lambda found: quote(texts[found[1]], safe=""), template)


def answer_of(status: int, content: bytes, server: str) -> Any:
    """The answer as plain values, or the error that the service told."""
    shown = without_credentials(server)
    if status < 400:
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            raise Unavailable(f"{shown} does not answer as Onbeat does; check --server") from None
    try:
        raise error_of(msgspec.json.decode(content, type=ProblemAnswer).error)
    except msgspec.DecodeError:
        kind = Unavailable if status >= 500 else OnbeatError
        raise kind(f"{shown} answered {status}, and not as Onbeat does; check --server") from None


def unreachable(server: str, error: Exception) -> Unavailable:
    reason = reason_of(error)
    shown = without_credentials(server)
    return Unavailable(f"{shown} did not answer: {reason}; is `onbeat up` running there?")


def reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) else str(error)


@asynccontextmanager
async def remote_caller(server: str, api_key: str | None) -> AsyncGenerator[RemoteCaller]:
    base = server.rstrip("/").removesuffix("/api")
    if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).netloc:
        shown = without_credentials(server)
        raise Misconfigured(
            f"--server: {shown!r} must be a URL like http://127.0.0.1:8080", key="server"
        )
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX, sock_connect=CONNECT_SECONDS_MAX)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=True) as session:
        yield RemoteCaller(session, base)
