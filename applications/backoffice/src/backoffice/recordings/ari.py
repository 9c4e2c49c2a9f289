"""Stored recordings on the Asterisk servers that made them, by ARI.

A row of the database names the server, so only servers that the configuration lists are asked.
"""

import asyncio
import re
from base64 import b64encode
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import IO, Final
from urllib.parse import SplitResult, urlsplit

import aiohttp

RECORDING_BYTES_MAX: Final = 512 * 1024 * 1024
"""Some nine hours of two channels at 8 kHz."""
CHUNK_BYTES: Final = 1024 * 1024
FETCH_SECONDS: Final = 600.0
SILENT_SECONDS: Final = 30.0
"""So long a server may take between two pieces of a recording."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*", re.ASCII)
NAME_CHARS_MAX: Final = 255
HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)

Network = IPv4Network | IPv6Network


class RefusedError(ValueError):
    """This recording will never be moved as its row stands; the message says what is wrong."""


class AriError(Exception):
    """A server did not do what it should; try again."""


@dataclass(frozen=True, kw_only=True)
class AriConfig:
    """`url` is the base of ARI, such as http://asterisk.example:8088/ari.

    `servers` are hosts, addresses and networks, such as 10.1.0.0/16, whose recordings may be
    fetched beside those of the host of `url`; they have its scheme, port and path.
    """

    url: str
    username: str
    password: str = field(repr=False)
    servers: tuple[str, ...] = ()
    bytes_max: int = RECORDING_BYTES_MAX
    fetch_seconds: float = FETCH_SECONDS

    def __post_init__(self) -> None:
        """Raises ValueError naming what is wrong."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise ValueError(f"the URL of ARI is such as http://asterisk:8088/ari: {self.url!r}")
        for server in self.servers:
            if network_of(server) is None and not HOST.fullmatch(server):
                raise ValueError(f"{server!r} is no host, address or network, such as 10.1.0.0/16")

    def base_of(self, server: str) -> str:
        """The base of ARI on that server; of the host of `url` if it is empty.

        Raises `RefusedError` unless the configuration allows that server.
        """
        parts = urlsplit(self.url)
        host = server or str(parts.hostname)
        if host != parts.hostname and not any(is_in(host, allowed) for allowed in self.servers):
            raise RefusedError(
                f"server {host[:100]!r} is none of those from which recordings may be fetched"
            )
        return parts._replace(netloc=address(host, parts)).geturl().rstrip("/")


def network_of(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def is_in(host: str, allowed: str) -> bool:
    """No name is resolved, so a name is only itself."""
    network = network_of(allowed)
    if network is None:
        return host == allowed
    try:
        return "%" not in host and ip_address(host) in network
    except ValueError:
        return False


def address(host: str, parts: SplitResult) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if parts.port is None else f"{shown}:{parts.port}"


def checked_name(storage_id: str) -> str:
    """The name of a stored recording. Raises `RefusedError` for all that could lead elsewhere."""
    if len(storage_id) > NAME_CHARS_MAX or not NAME.fullmatch(storage_id):
        raise RefusedError(
            f"storage_id {storage_id[:100]!r} is no name of a recording: letters, digits, `_`, `-`"
            " and single dots between them"
        )
    return storage_id


@dataclass(frozen=True)
class Ari:
    """The stored recordings of all servers."""

    config: AriConfig

    async def fetch(self, server: str, storage_id: str, file: IO[bytes]) -> int:
        """Write the recording to `file`; its size in bytes.

        Raises `RefusedError` for a server that is not allowed and for a recording that is too
        large, else `AriError`, `aiohttp.ClientError` or `TimeoutError`.
        """
        url = f"{self.stored(server, storage_id)}/file"
        async with self.client() as client, client.get(url, allow_redirects=False) as response:
            if response.status != HTTPStatus.OK:
                raise AriError(f"GET {url} was answered by {response.status}")
            size = 0
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                size += len(chunk)
                if size > self.config.bytes_max:
                    raise RefusedError(f"{url} has more than {self.config.bytes_max} bytes")
                await asyncio.to_thread(file.write, chunk)
        return size

    async def delete(self, server: str, storage_id: str) -> None:
        """Delete the recording; one that is gone is fine. Raises as `fetch`."""
        url = self.stored(server, storage_id)
        async with self.client() as client, client.delete(url, allow_redirects=False) as response:
            if not response.ok and response.status != HTTPStatus.NOT_FOUND:
                raise AriError(f"DELETE {url} was answered by {response.status}")

    def stored(self, server: str, storage_id: str) -> str:
        return f"{self.config.base_of(server)}/recordings/stored/{checked_name(storage_id)}"

    def client(self) -> aiohttp.ClientSession:
        own = self.config
        timeout = aiohttp.ClientTimeout(
            total=own.fetch_seconds, sock_connect=SILENT_SECONDS, sock_read=SILENT_SECONDS
        )
        return aiohttp.ClientSession(
            headers={"Authorization": basic(own.username, own.password)}, timeout=timeout
        )


def basic(username: str, password: str) -> str:
    """By hand, as the form of it in aiohttp differs between its versions."""
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"
