"""Keeps callbacks away from addresses that they must not reach, at the moment of connecting."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from onbeat.rules.addresses import Allowed, verdict

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host; raises `OSError` when it has none."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, kind, protocol, name and socket address, as `getaddrinfo` has them."""

LOOKUP_THREADS: Final = 16


class Refused(OSError):
    """The host's address is one that callbacks must not reach."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, f"the host is {reason}")
        self.reason = reason


class Guard:
    """Judges every address twice: all answers of a lookup, and the one that is connected to."""

    def __init__(self, allowed: Allowed, *, private_allowed: bool) -> None:
        self.allowed = allowed
        self.private_allowed = private_allowed

    def check(self, address: str) -> None:
        reason = verdict(address, private_allowed=self.private_allowed, allowed=self.allowed)
        if reason is not None:
            raise Refused(reason)

    def socket_for(self, info: AddressInfo) -> socket.socket:
        """The connector's socket factory: sees the address itself, whatever the URL called it."""
        family, kind, protocol, _, address = info
        self.check(str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)


class GuardedResolver(AbstractResolver):
    """Refuses a host for a single bad answer: one that mixes good and bad is up to no good."""

    def __init__(self, lookup: Lookup, guard: Guard) -> None:
        self.lookup = lookup
        self.guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        assert family == socket.AF_UNSPEC  # the connector asks for both kinds of address
        addresses = await self.lookup(host, port)
        for address in addresses:
            self.guard.check(address)
        if not addresses:
            raise OSError(errno.ENOENT, "the host has no address")
        return [result_for(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Owns nothing: whoever made the lookup closes it."""


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
    """The system's resolver, on threads of its own.

    A name server that does not answer holds a thread for many seconds. The loop's default threads
    run handlers; they must not wait behind that.
    """

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="onbeat-lookup")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, addresses_of, host, port)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


def addresses_of(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in found]
