"""What the HTTP face needs to know beside its operator."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import msgspec

Readiness = Mapping[str, str]
"""What was looked at, by name: "ok", or what is wrong with it."""


async def always_ready() -> Readiness:
    return {}


class ApiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Who may come in, and what the service tells about itself.

    Without `keys` everybody may. `hosts` are the names under which the service may be addressed,
    all when empty: a service without keys on loopback should name them, or a page of another site
    could reach it by pointing its own name there. `metrics` gives a body and its content type.
    """

    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ready: Callable[[], Awaitable[Readiness]] = always_ready
    metrics: Callable[[], Awaitable[tuple[bytes, str]]] | None = None
    body_deadline: timedelta = timedelta(seconds=30)
    ready_deadline: timedelta = timedelta(seconds=2)
