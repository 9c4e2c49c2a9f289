"""Listens to the live stream of a remote service."""

from collections.abc import AsyncGenerator
from typing import Final

import aiohttp

from onbeat.app.service_client import ServiceClient, proxy_for, reason_of
from onbeat.model.errors import Unavailable

PATH: Final = "/api/stream"
TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=45)
"""The service sends a comment each 15 seconds, so a longer silence is a broken connection."""
KIND: Final = b"event:"


async def events_of(client: ServiceClient, kinds: str) -> AsyncGenerator[str]:
    """The kind of each event of `kinds` (separated by commas), until the service ends the stream.

    Raises the error of the service, or `Unavailable`.
    """
    try:
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.get(
                client.base + PATH,
                params={"events": kinds},
                headers=client.headers,
                allow_redirects=False,
                proxy=proxy_for(client.base),
            ) as response,
        ):
            if response.status != 200:
                raise client.error_of(response.status, await response.read())
            async for line in response.content:
                if line.startswith(KIND):
                    yield line.removeprefix(KIND).strip().decode()
    except (aiohttp.ClientError, TimeoutError, OSError) as cause:
        raise Unavailable(
            f"the stream of {client.display_url} ended: {reason_of(cause)}"
        ) from cause
