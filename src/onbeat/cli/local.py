"""Asks the store itself, through the same operations as the service."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from onbeat.app.client import Onbeat
from onbeat.app.composition import HttpPolicy, Options
from onbeat.operations.caller import call, request_from
from onbeat.operations.operator import Operator
from onbeat.operations.table import OPERATIONS_BY_NAME, Operation
from onbeat.rules.addresses import allowed_from
from onbeat.settings import Settings


class LocalCaller:
    """Goes the way of a request over HTTP, so both refuse the same things in the same words."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        asked: Operation[Any, Any] = OPERATIONS_BY_NAME[operation]
        texts = {name: str(value) for name, value in named.items() if value is not None}
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await call(self.operator, asked, request_from(asked, texts, encoded))
        return msgspec.json.decode(msgspec.json.encode(answer))


@asynccontextmanager
async def local_caller(settings: Settings) -> AsyncGenerator[LocalCaller]:
    beat = opened_with(settings)
    try:
        await beat.open()
        yield LocalCaller(beat.operator)
    finally:
        await beat.close()


def opened_with(settings: Settings) -> Onbeat:
    http = HttpPolicy(
        timeout=settings.http.timeout,
        private_allowed=settings.allows_private,
        allowed=allowed_from(settings.http.allow),
    )
    options = Options(
        retry=settings.retry.policy,
        http=http,
        connections=dict(settings.connections),
        remote_tasks=frozenset(settings.remote.tasks),
    )
    return Onbeat(settings.store, options=options)
