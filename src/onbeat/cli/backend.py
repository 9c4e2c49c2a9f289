"""The backend of a command: the same that the library has, on a store or a service."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from onbeat.app.backend import Backend
from onbeat.model.errors import Misconfigured
from onbeat.model.ids import JobId
from onbeat.operations.table import OPERATIONS_BY_NAME
from onbeat.rules.access import names_of
from onbeat.settings import Settings


class BackendClient:
    """Implements `onbeat.cli.client.Client`.

    A store and a service read the request in the same form, so both refuse the same input with the
    same messages.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        texts = {name: str(value) for name, value in named.items() if value is not None}
        encoded = None if body is None else msgspec.json.encode(body)
        return await self.backend.call_json(OPERATIONS_BY_NAME[operation], texts, encoded)

    async def call_schedule(
        self,
        operation: str,
        which: str,
        named: Mapping[str, object],
        body: object | None = None,
    ) -> Any:
        return await self.backend.with_schedule(
            which, lambda found: self.call(operation, {**named, "id": found}, body)
        )

    async def wait_for_end(self, id: str) -> Any:
        job = await self.backend.wait_for_end(JobId(id))
        return msgspec.json.decode(msgspec.json.encode(job))


@asynccontextmanager
async def open_backend(
    server: str | None, api_key: str | None, load_settings: Callable[[], Settings]
) -> AsyncGenerator[Backend]:
    """The service, if one is named, or else the store, open until the block ends.

    Raises `Misconfigured`.
    """
    if server:
        service = service_at(server, api_key)
        try:
            yield service
        finally:
            await service.aclose()
        return
    settings = load_settings()
    if settings.store.startswith("memory:"):
        raise Misconfigured(
            "store: memory:// lives inside the service's process; name it by --server URL",
            key="store",
        )
    async with open_store_of(settings) as backend:
        yield backend


@asynccontextmanager
async def open_store_of(settings: Settings) -> AsyncGenerator[Backend]:
    # Imported here: each of the two loads modules that the other does not need.
    from onbeat.app.configure import options_from  # noqa: PLC0415
    from onbeat.app.local_backend import LocalBackend  # noqa: PLC0415
    from onbeat.settings.answers import setting_answers  # noqa: PLC0415

    backend = LocalBackend(settings.store, options=options_from(settings))
    backend.settings = setting_answers(settings)
    backend.configured_keys = names_of(settings.api.keys)
    try:
        await backend.open()
        yield backend
    finally:
        await backend.aclose()


def service_at(url: str, api_key: str | None) -> Backend:
    from onbeat.app.remote_backend import RemoteBackend  # noqa: PLC0415  as above

    try:
        return RemoteBackend(url, api_key=api_key)
    except Misconfigured as error:
        raise Misconfigured(f"--server: {error}", error.key) from None
