"""The parts of the program that its handlers can use."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, cast

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_call
from onbeat.app.transaction.sender import finish_in_transaction
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.operations.encryption import encrypted_job
from onbeat.ports.store import Settlement


class HandlerContext:
    """Implements `onbeat.targets.app_context.AppContext` on a backend's own store."""

    def __init__(self, backend: Backend) -> None:
        self.store = backend.store
        self.clock = backend.clock
        self.randomness = backend.randomness
        self.cipher = backend.cipher
        self.retry = backend.options.retry

    def job_of(self, call: object, id: JobId, now: datetime) -> Job:
        """The job of a call. Raises TypeError for other objects."""
        check_call(call)
        job = cast("Call[Any]", call).job(id, now, self.retry)
        return encrypted_job(self.cipher, job)

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle a job in the transaction that `connection` is in.

        On a synchronous connection the job is settled when this returns. Raises `LeaseLost`.
        """
        return finish_in_transaction(self.store, connection, settlement)
