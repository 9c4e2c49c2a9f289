"""A backend of Django's own tasks: `django.tasks` of Django 6, or `django_tasks` before it."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from django.utils import timezone
from django.utils.module_loading import import_string
from msgspec import UNSET

from onbeat.app.task import AnyTask, Context
from onbeat.ext.django import beat
from onbeat.model.errors import Malformed, NotFound
from onbeat.model.job import JobState
from onbeat.wire.jobs import AttemptAnswer, JobInfo

PACKAGE: Final = "django.tasks" if find_spec("django.tasks") else "django_tasks"
base: Final[Any] = import_module(f"{PACKAGE}.base")
signals: Final[Any] = import_module(f"{PACKAGE}.signals")
exceptions: Final[Any] = import_module(f"{PACKAGE}.exceptions")
BaseTaskBackend: Any = import_module(f"{PACKAGE}.backends.base").BaseTaskBackend

STATUSES: Final = {
    JobState.WAITING: "READY",
    JobState.RUNNING: "RUNNING",
    JobState.SUCCEEDED: "SUCCESSFUL",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "FAILED",
}
FRAME: Final = 'File "'
KNOWN: Final[dict[str, AnyTask]] = {}
"""The tasks of Onbeat for those of Django, by their paths."""


class OnbeatBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "onbeat.ext.django.tasks_backend.OnbeatBackend"}}`.

    `OPTIONS` are options of tasks in Onbeat, such as `retry` and `timeout`.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Called for each task where it is defined, so that a worker knows it from then on."""
        super().validate_task(task)
        if task.module_path not in KNOWN:
            handler = handler_of(self, task)
            KNOWN[task.module_path] = beat.task(task.module_path, **self.options)(handler)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Send a job; within `atomic` as any job of the project."""
        self.validate_task(task)
        ours = KNOWN[task.module_path].options(
            queue=task.queue_name, priority=-task.priority, run_at=aware(task.run_after)
        )
        job = ours.send(*args, **kwargs)
        result = base.TaskResult(
            task=task,
            id=job.id,
            status=base.TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Raises TaskResultDoesNotExist for the id of no job, or of a job of another kind."""
        try:
            job = beat.jobs.get(result_id)
        except (NotFound, Malformed) as error:
            raise exceptions.TaskResultDoesNotExist(result_id) from error
        return self.result_of(job)

    async def aget_result(self, result_id: str) -> Any:
        try:
            job = await beat.jobs.aget(result_id)
        except (NotFound, Malformed) as error:
            raise exceptions.TaskResultDoesNotExist(result_id) from error
        return self.result_of(job)

    def result_of(self, job: JobInfo) -> Any:
        """A job as Django shows it."""
        if job.target.task not in KNOWN:
            raise exceptions.TaskResultDoesNotExist(job.id)
        task = import_string(str(job.target.task)).using(
            queue_name=job.queue, priority=-job.priority, backend=self.alias
        )
        plain = job.to_dict()
        attempts = () if job.attempts is UNSET else job.attempts
        started = [one.started for one in attempts]
        result = base.TaskResult(
            task=task,
            id=job.id,
            status=base.TaskResultStatus[STATUSES[job.state]],
            enqueued_at=job.created_at,
            started_at=min(started, default=job.started_at),
            last_attempted_at=max(started, default=job.started_at),
            finished_at=job.finished_at,
            args=plain["target"].get("args", []),
            kwargs=plain["target"].get("kwargs", {}),
            backend=self.alias,
            errors=[error_of(one) for one in attempts if one.error is not None],
            worker_ids=[one.worker or "" for one in attempts],
        )
        object.__setattr__(result, "_return_value", job.result)
        return result


def aware(run_after: datetime | None) -> datetime | None:
    """Without USE_TZ Django has instants in the zone of the settings."""
    if run_after is None or timezone.is_aware(run_after):
        return run_after
    result: datetime = timezone.make_aware(run_after)
    return result


def error_of(attempt: AttemptAnswer) -> Any:
    """An error by the name in its traceback; one without a traceback is Onbeat's own."""
    text = str(attempt.error)
    lines = text.splitlines() if text.startswith(FRAME) else []
    names = (line.partition(":")[0] for line in lines if not line.startswith((" ", FRAME)))
    name = next(names, "onbeat.JobFailed")
    path = name if "." in name else f"builtins.{name}"
    return base.TaskError(exception_class_path=path, traceback=text)


def handler_of(backend: OnbeatBackend, task: Any) -> Callable[..., Any]:
    """What Onbeat runs: the function, with the context of Django where it takes one.

    Arguments are plain values, as Django promises; annotations convert nothing.
    """
    function = task.func
    if inspect.iscoroutinefunction(function):

        async def run_coroutine(context: Context, /, *args: Any, **kwargs: Any) -> Any:
            if not task.takes_context:
                return await function(*args, **kwargs)
            job = await beat.jobs.aget(context.job_id)
            return await function(context_of(backend, job), *args, **kwargs)

        return named(run_coroutine, function)

    def run(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        if not task.takes_context:
            return function(*args, **kwargs)
        return function(context_of(backend, beat.jobs.get(context.job_id)), *args, **kwargs)

    return named(run, function)


def named(handler: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The handler under the name of the function, but with its own signature."""
    names = ("__module__", "__name__", "__qualname__", "__doc__")
    functools.update_wrapper(handler, function, assigned=names, updated=())
    del handler.__wrapped__  # type: ignore[attr-defined]
    return handler


def context_of(backend: OnbeatBackend, job: JobInfo) -> Any:
    return base.TaskContext(task_result=backend.result_of(job))
