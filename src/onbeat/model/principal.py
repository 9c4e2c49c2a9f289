"""A principal: the caller of an operation, with its permissions."""

from enum import StrEnum
from typing import Final

import msgspec


class Scope(StrEnum):
    """A permission of an API key.

    `read` reads, `submit` creates jobs, `work` claims and settles them, `operate` changes
    schedules, queues, jobs and dead letters, `admin` manages keys and reads the audit log.
    """

    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"


ALL_SCOPES: Final = frozenset(Scope)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A named caller. `queues` are the queues whose jobs it may work on, None for all."""

    name: str
    scopes: frozenset[Scope]
    queues: tuple[str, ...] | None = None


LOCAL: Final = Principal(name="local", scopes=ALL_SCOPES)
"""The library, and the command line on a store: access to the store gives every permission."""

ANONYMOUS: Final = Principal(name="anonymous", scopes=ALL_SCOPES)
"""Every caller of a service without keys."""

BROKER: Final = Principal(name="broker", scopes=frozenset({Scope.SUBMIT, Scope.WORK}))
"""A client that may write to the broker's queues: it submits jobs and reports their results."""

UNNAMED: Final = (LOCAL, ANONYMOUS, BROKER)
"""Callers without a key of their own."""
