"""The jobs that a program under test has sent, with their arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from onbeat.app.backend import Backend
from onbeat.model.job import Job
from onbeat.model.limits import PAGE_LIMIT_MAX, PAYLOAD_BYTES_MAX
from onbeat.model.page import JobFilter
from onbeat.model.target import HandlerTarget
from onbeat.rules.encryption import decrypt_target
from onbeat.targets.codec import encode_value


class SentJob(msgspec.Struct, frozen=True):
    """A job of a task by what a test looks for; None stands for all."""

    task: str
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    queue: str | None

    def fits(
        self,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        queue: str | None,
    ) -> bool:
        if args is not None and kwargs is None:
            kwargs = {}
        return (
            (args is None or self.args == plain([*args]))
            and (kwargs is None or self.kwargs == plain(dict(kwargs)))
            and (queue is None or self.queue == queue)
        )

    def __repr__(self) -> str:
        parts = [] if self.args is None else [repr(one) for one in self.args]
        parts += [f"{name}={value!r}" for name, value in (self.kwargs or {}).items()]
        call = f"{self.task}({', '.join(parts)})" if parts or self.args is not None else self.task
        return call if self.queue is None else f"{call} in {self.queue}"


def plain(value: object) -> Any:
    """A value as it comes back from JSON."""
    return msgspec.json.decode(encode_value("an argument", value, PAYLOAD_BYTES_MAX))


async def sent_jobs(backend: Backend, task: str, since: datetime) -> list[SentJob]:
    """The jobs of a task that no schedule made, oldest first."""
    found: list[Job] = []
    filter = JobFilter(task=task, limit=PAGE_LIMIT_MAX)
    while True:
        page = await backend.store.jobs(filter)
        found += [job for job in page.items if job.schedule_id is None and job.created_at >= since]
        if len(page.items) < PAGE_LIMIT_MAX:
            return [sent_job(backend, job) for job in reversed(found)]
        filter = msgspec.structs.replace(filter, before=page.items[-1].id)


def sent_job(backend: Backend, job: Job) -> SentJob:
    target = decrypt_target(job.target, backend.cipher.decrypt)
    assert isinstance(target, HandlerTarget), "only tasks were asked for"
    args, kwargs = msgspec.json.decode(target.args), msgspec.json.decode(target.kwargs)
    return SentJob(target.task, args, kwargs, job.queue)
