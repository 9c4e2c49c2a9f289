"""Stores calls as jobs, and returns their handles."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from onbeat.app.backend import Backend
from onbeat.app.batch import Batch, following
from onbeat.app.call import Call, check_call, check_calls
from onbeat.app.flow import sending_of
from onbeat.app.handle import JobHandle
from onbeat.app.transaction.sender import TransactionalSender
from onbeat.model.errors import Invalid
from onbeat.model.job import Edge

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
        now = await backend.now()
        with backend.sending() as span:
            job = call.job(backend.randomness.ids(1)[0], now, backend.options.retry)
            span.describe([job])
            (enqueued,) = await backend.enqueue([job])
            if enqueued.created and enqueued.id != job.id:  # several cells put slots into ids
                span.describe([replace(job, id=enqueued.id)])
        return JobHandle(backend, enqueued.id, call, created=enqueued.created)

    def send_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        return self.backend.wait_for(self.asend_all(calls))

    async def asend_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        """Store many calls in one write."""
        check_calls(calls)
        backend = self.backend
        now, retry = await backend.now(), backend.options.retry
        with backend.sending() as span:
            sending = sending_of(calls, backend.randomness, now, retry)
            span.describe(sending.jobs)
            enqueued = sending.in_place(await backend.enqueue(sending.jobs))
        return [
            JobHandle(backend, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    async def asend_batch(
        self,
        calls: Iterable[Call[Any]],
        then: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
    ) -> Batch:
        """Store the calls and those that follow, in one write. Raises `Invalid` for none."""
        members = calls if isinstance(calls, Sequence) else list(calls)
        if not members:
            raise Invalid("a batch needs at least one call", "calls")
        check_calls(members)
        check_calls(call for call in (then, on_failure) if call is not None)
        last = [
            following(call, on)
            for call, on in ((then, Edge.SUCCESS), (on_failure, Edge.FAILURE))
            if call is not None
        ]
        sent = [*members, *last]
        backend = self.backend
        now, retry = await backend.now(), backend.options.retry
        with backend.sending() as span:
            sending = sending_of(sent, backend.randomness, now, retry, is_flow=True)
            span.describe(sending.jobs)
            enqueued, flow = await backend.enqueue_flow(sending.jobs, is_flow=True)
        handles = [
            JobHandle(backend, answer.id, call, created=answer.created)
            for call, answer in zip(sent, sending.in_place(enqueued), strict=True)
        ]
        id = flow or sending.flow
        assert id is not None, "a batch is a flow"
        jobs, after = handles[: len(members)], iter(handles[len(members) :])
        return Batch(
            backend,
            id,
            jobs,
            None if then is None else next(after),
            None if on_failure is None else next(after),
        )

    def in_transaction(self, connection: object) -> TransactionalSender:
        return TransactionalSender(self.backend, connection)
