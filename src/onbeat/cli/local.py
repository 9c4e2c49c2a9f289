"""A client of the store itself, through the same operations as the service."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from onbeat.app.client import Onbeat
from onbeat.app.configure import options_from
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call, request_from
from onbeat.operations.table import OPERATIONS_BY_NAME, Operation
from onbeat.settings import Settings


class LocalClient:
    """Builds requests like HTTP, so both refuse the same input with the same messages."""

    def __init__(self, context: OperationContext) -> None:
        self.operator = context

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        request: Operation[Any, Any] = OPERATIONS_BY_NAME[operation]
        texts = {name: str(value) for name, value in named.items() if value is not None}
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await call(self.operator, request, request_from(request, texts, encoded))
        return msgspec.json.decode(msgspec.json.encode(answer))


@asynccontextmanager
async def local_client(settings: Settings) -> AsyncGenerator[LocalClient]:
    beat = onbeat_for(settings)
    try:
        await beat.open()
        yield LocalClient(beat.context)
    finally:
        await beat.aclose()


def onbeat_for(settings: Settings) -> Onbeat:
    return Onbeat(settings.store, options=options_from(settings))
