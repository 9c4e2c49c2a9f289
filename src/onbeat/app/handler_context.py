"""The parts of the program that its handlers can use."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, cast

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_call
from onbeat.app.flow import link_yielded
from onbeat.app.registry import decode_json
from onbeat.app.transaction.sender import finish_in_transaction
from onbeat.engine.clocks import StoreClock
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.operations.conditions import with_stored_condition
from onbeat.operations.encryption import encrypted_job
from onbeat.ports.store import Settlement
from onbeat.targets.app_context import SentCalls


class HandlerContext:
    """Implements `onbeat.targets.app_context.AppContext` on a backend's own store."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.store = backend.store
        self.clock = backend.clock
        self.clock_stands = not isinstance(backend.clock, StoreClock)
        self.randomness = backend.randomness
        self.cipher = backend.cipher
        self.handlers = backend.registry.handlers
        self.retry = backend.options.retry

    def decode_result(self, lane: str, packed: bytes) -> Any:
        handler = self.handlers.get(lane)
        return decode_json(packed) if handler is None else handler.decode_result(packed)

    def job_of(self, call: object, id: JobId, now: datetime, flow: JobId, sent: SentCalls) -> Job:
        """The job of a call. Raises TypeError for other objects."""
        check_call(call)
        one = cast("Call[Any]", call)
        after = one.options.awaited
        linked = link_yielded(after, sent, flow) if after else None
        job = one.job(id, now, self.retry, linked, flow)
        if job.condition is not None:
            job = with_stored_condition(self.backend.context, job)
        return encrypted_job(self.cipher, job)

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle a job in the transaction that `connection` is in.

        On a synchronous connection the job is settled when this returns. Raises `LeaseLost`.
        """
        return finish_in_transaction(self.store, connection, settlement)
