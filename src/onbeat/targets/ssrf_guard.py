"""SSRF protection: checks addresses of callbacks when a connection is made."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from onbeat.model.limits import DESCRIPTORS_SPARE
from onbeat.rules.ip_policy import Allowed, verdict
from onbeat.targets.descriptors import descriptors_max

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up the addresses of a host; raises `OSError` when it has none."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, name and socket address, as `getaddrinfo` returns them."""

LOOKUP_THREADS: Final = 16


class AddressRefused(OSError):
    """Callbacks must not reach the host's address."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, f"the host is {reason}")
        self.reason = reason


class AddressGuard:
    """Checks addresses twice: all results of a lookup, and the one that is connected to."""

    def __init__(self, allowed: Allowed, *, private_allowed: bool) -> None:
        self.allowed = allowed
        self.private_allowed = private_allowed
        most = descriptors_max()
        self.descriptor_max = None if most is None else max(most - DESCRIPTORS_SPARE, most // 2)

    def check(self, address: str) -> None:
        reason = verdict(address, private_allowed=self.private_allowed, allowed=self.allowed)
        if reason is not None:
            raise AddressRefused(reason)

    def socket_for(self, info: AddressInfo) -> socket.socket:
        """The connector's socket factory: checks the address itself, whatever the URL contains."""
        family, kind, protocol, _, address = info
        self.check(str(address[0]))
        made = socket.socket(family=family, type=kind, proto=protocol)
        # The kernel assigns the lowest free number, so a high number means that few are left.
        if self.descriptor_max is not None and made.fileno() >= self.descriptor_max:
            made.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return made


class GuardedResolver(AbstractResolver):
    """Refuses a host if any of its addresses is refused: a mixed answer is suspicious."""

    def __init__(self, lookup: Lookup, guard: AddressGuard) -> None:
        self.lookup = lookup
        self.guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        assert family == socket.AF_UNSPEC  # the connector asks for both families
        addresses = await self.lookup(host, port)
        for address in addresses:
            self.guard.check(address)
        if not addresses:
            raise OSError(errno.ENOENT, "the host has no address")
        return [result_for(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Does nothing: the owner of the lookup closes it."""


def result_for(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


class SystemLookup:
    """The system's resolver, with its own threads.

    A name server that does not answer blocks a thread for many seconds. The loop's default threads
    run handlers, which must not wait for it.
    """

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="onbeat-lookup")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, addresses_of, host, port)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


def addresses_of(host: str, port: int) -> Sequence[str]:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in addresses]
