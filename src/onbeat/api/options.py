"""The options of the HTTP API."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import msgspec

Readiness = Mapping[str, str]
"""The checks by name: "ok", or the problem."""


async def always_ready() -> Readiness:
    return {}


def not_counted() -> None:
    pass


class ApiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Access control of the API, and the sources of its readiness and metrics.

    `keys` are those of the settings, in the form of `rules.access.read_configured_key`; without
    these, and without keys in the store, everybody has access. `key_refused` counts refusals.
    `hosts` are the names under which the service may be addressed, in addition to all addresses;
    None is any name. Unless `hosts_with_key`, they are checked only for requests without a key: a
    page of another site could send these by pointing its own name at the service. `metrics` takes
    an `Accept` and returns a body and its content type.
    """

    keys: tuple[str, ...] = ()
    key_refused: Callable[[], None] = not_counted
    hosts: tuple[str, ...] | None = None
    hosts_with_key: bool = False
    ready: Callable[[], Awaitable[Readiness]] = always_ready
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]] | None = None
    body_deadline: timedelta = timedelta(seconds=30)
    ready_deadline: timedelta = timedelta(seconds=2)
