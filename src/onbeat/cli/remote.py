"""A client of a service over HTTP, with requests from the table of operations."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from onbeat.app.service_client import RetryPermission, ServiceClient, fresh_key, path_of
from onbeat.model.errors import Misconfigured
from onbeat.operations.table import OPERATIONS_BY_NAME, Operation


class RemoteClient:
    """Returns plain values, which commands print."""

    def __init__(self, link: ServiceClient) -> None:
        self.client = link
        self.run = fresh_key()
        self.places = count(1)

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        request = OPERATIONS_BY_NAME[operation]
        texts = {name: str(value) for name, value in named.items() if value is not None}
        query = {name: text for name, text in texts.items() if f"{{{name}}}" not in request.path}
        data = None if body is None else msgspec.json.encode(body)
        content = await self.client.send(
            request.method,
            path_of(request.path, texts),
            query,
            data,
            repeat=self.retry_permission(request),
        )
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            raise self.client.unreadable_answer() from None

    def retry_permission(self, operation: Operation[Any, Any]) -> RetryPermission | None:
        """One key for a run of the command, numbered for several requests."""
        if operation.takes_key:
            return RetryPermission(key=f"{self.run}/{next(self.places)}")
        return RetryPermission() if operation.method == "PUT" else None


@asynccontextmanager
async def remote_client(server: str, api_key: str | None) -> AsyncGenerator[RemoteClient]:
    try:
        link = ServiceClient(server, api_key)
    except Misconfigured as error:
        raise Misconfigured(f"--server: {error}", error.key) from None
    yield RemoteClient(link)
