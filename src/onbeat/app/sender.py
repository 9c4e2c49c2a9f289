"""Stores calls as jobs, and returns their handles."""

from collections.abc import Sequence
from typing import Any, TypeVar

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_call
from onbeat.app.handle import JobHandle
from onbeat.app.transaction.sender import TransactionalSender

Result = TypeVar("Result")


class Sender:
    """Implements `onbeat.app.task.CallSender` for the tasks of an `Onbeat`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def send_call(self, call: Call[Result]) -> JobHandle[Result]:
        return self.backend.wait_for(self.asend_call(call))

    async def asend_call(self, call: Call[Result]) -> JobHandle[Result]:
        check_call(call)
        backend = self.backend
        job = call.job(backend.randomness.ids(1)[0], await backend.now(), backend.options.retry)
        (enqueued,) = await backend.enqueue([job])
        return JobHandle(backend, enqueued.id, call, created=enqueued.created)

    def send_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        return self.backend.wait_for(self.asend_all(calls))

    async def asend_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        """Store many calls in one write."""
        for call in calls:
            check_call(call)
        backend = self.backend
        now, retry = await backend.now(), backend.options.retry
        ids = backend.randomness.ids(len(calls))
        jobs = [call.job(id, now, retry) for call, id in zip(calls, ids, strict=True)]
        enqueued = await backend.enqueue(jobs)
        return [
            JobHandle(backend, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    def in_transaction(self, connection: object) -> TransactionalSender:
        return TransactionalSender(self.backend, connection)
