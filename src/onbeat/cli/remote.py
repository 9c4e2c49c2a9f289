"""Asks a service over HTTP: each request is spelled from the operations' own table."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from onbeat.app.link import Link, path_of
from onbeat.model.errors import Misconfigured
from onbeat.operations.table import OPERATIONS_BY_NAME


class RemoteCaller:
    """Answers with plain values, as commands print them."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        asked = OPERATIONS_BY_NAME[operation]
        texts = {name: str(value) for name, value in named.items() if value is not None}
        query = {name: text for name, text in texts.items() if f"{{{name}}}" not in asked.path}
        data = None if body is None else msgspec.json.encode(body)
        content = await self.link.send(asked.method, path_of(asked.path, texts), query, data)
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            raise self.link.strange() from None


@asynccontextmanager
async def remote_caller(server: str, api_key: str | None) -> AsyncGenerator[RemoteCaller]:
    try:
        link = Link(server, api_key)
    except Misconfigured as error:
        raise Misconfigured(f"--server: {error}", error.key) from None
    yield RemoteCaller(link)
