"""Sends jobs with the transactions of Django."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import connections, transaction

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_call
from onbeat.app.flow import sending_of
from onbeat.app.handle import JobHandle
from onbeat.app.sender import Sender
from onbeat.app.transaction.sender import TransactionalSender

Result = TypeVar("Result")


class DjangoSender(Sender):
    """Within `atomic`: in that transaction, where the store is in its database; else on its commit.

    Outside of `atomic`, and in coroutines, which Django gives no transactions, as any sender.
    """

    def __init__(self, backend: Backend, alias: str, *, is_shared: bool) -> None:
        """`is_shared`: the store is in the database of the alias."""
        super().__init__(backend)
        self.alias = alias
        self.shared_store = backend.store if is_shared else None

    def send_call(self, call: Call[Result]) -> JobHandle[Result]:
        if not self.in_atomic():
            return super().send_call(call)
        (job,) = self.send_atomic([call])
        return job

    def send_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        return self.send_atomic(calls) if self.in_atomic() else super().send_all(calls)

    def in_atomic(self) -> bool:
        return bool(connections[self.alias].in_atomic_block)

    def send_atomic(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        for call in calls:
            check_call(call)
        joined = self.joined()
        return self.send_on_commit(calls) if joined is None else joined.send_all(calls)

    def joined(self) -> TransactionalSender | None:
        """A sender in the open transaction, where the store is in the same database."""
        if self.shared_store is None or self.backend.store is not self.shared_store:
            return None  # a trial, or the settings of a service, have another one
        try:
            return self.in_transaction(connections[self.alias].connection)
        except TypeError:
            return None  # its driver is none of those that Onbeat knows

    def send_on_commit(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        """The jobs have their ids now, and are stored right after the commit."""
        backend = self.backend
        now = backend.wait_for(backend.now())
        sending = sending_of(calls, backend.randomness, now, backend.options.retry)
        transaction.on_commit(self.storing(sending.jobs), using=self.alias)
        ids = sending.in_place([job.id for job in sending.jobs])
        return [
            JobHandle(backend, id, call, created=True) for id, call in zip(ids, calls, strict=True)
        ]

    def storing(self, jobs: Sequence[Any]) -> Callable[[], object]:
        backend = self.backend
        return lambda: backend.wait_for(backend.enqueue(jobs))
