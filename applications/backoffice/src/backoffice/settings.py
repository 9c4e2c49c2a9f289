"""Where recordings go, and by whose leave: asked of the provider's API, kept for a minute.

`SettingsApi(API_URL, LINEBLOCS_KEY)`; its `user_settings()` may be called as often as one likes.
No secret is shown by `repr` or by an error.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp

CACHED_SECONDS: Final = 60.0
TIMEOUT_SECONDS: Final = 20.0
ANSWER_BYTES_MAX: Final = 64 * 1024
TOKEN_HEADER: Final = "X-Lineblocs-Api-Token"  # noqa: S105  its name


class SettingsError(Exception):
    """The settings could not be had; try again. The message shows nothing of the answer."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The account of S3 and its bucket."""

    region: str
    bucket: str
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)


class SettingsApi:
    """For one event loop. However many ask at once, one request is on its way."""

    def __init__(self, url: str, token: str, cached_seconds: float = CACHED_SECONDS) -> None:
        """`url` is the base of the API, such as https://internals.example/api."""
        self.url = f"{url.rstrip('/')}/user/getSettings"
        self._token = token
        self.cached_seconds = cached_seconds
        self.asking = asyncio.Lock()
        self.kept: Settings | None = None
        self.kept_until = 0.0

    async def user_settings(self) -> Settings:
        """Raises `SettingsError`, `aiohttp.ClientError` or `TimeoutError`."""
        async with self.asking:
            if self.kept is None or time.monotonic() >= self.kept_until:
                self.kept = None
                self.kept = settings_of(await self.answer())
                self.kept_until = time.monotonic() + self.cached_seconds
            return self.kept

    async def answer(self) -> bytes:
        headers = {TOKEN_HEADER: self._token, "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout) as client,
            # Another host must not see the token.
            client.get(self.url, headers=headers, allow_redirects=False) as response,
        ):
            if response.status != HTTPStatus.OK:
                raise SettingsError(f"the settings API answered {response.status}, not 200")
            return await bounded(response)


async def bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise SettingsError(f"the settings API answered more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def settings_of(answer: bytes) -> Settings:
    """Raises `SettingsError` naming what is missing."""
    try:
        body: Any = json.loads(answer)
    except (ValueError, RecursionError):
        # Not `from` that error, which keeps the answer.
        raise SettingsError("the settings API did not answer JSON") from None
    credentials = members(members(body, "answer").get("credentials"), "credentials")
    return Settings(
        region=text(credentials, "aws_region"),
        bucket=text(credentials, "s3_bucket"),
        access_key_id=text(credentials, "aws_access_key_id"),
        secret_access_key=text(credentials, "aws_secret_access_key"),
    )


def members(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"the settings API gave no object as its `{name}`")
    return cast("Mapping[str, object]", value)


def text(credentials: Mapping[str, object], name: str) -> str:
    value = credentials.get(name)
    if not isinstance(value, str) or not value:
        raise SettingsError(f"`credentials.{name}` of the settings API is missing, or no text")
    return value
