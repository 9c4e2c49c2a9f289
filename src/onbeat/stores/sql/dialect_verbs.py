"""The verbs that each database implements in its own SQL, by name."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Generic, TypeVar

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job

T = TypeVar("T")


class DialectVerbs(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Each runs in a transaction of its database; `ports.store` documents what it does.

    Instants are whole microseconds since the epoch. Where the parameters differ from `ports.store`,
    `SqlStore` prepares them outside the transaction, to keep that short.
    """

    # Dispatcher, renewer, rescuer, pruner
    abandoned_jobs: Callable[[T, Collection[WorkerId], int, int], Awaitable[Sequence[Job]]]
