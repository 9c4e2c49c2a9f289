"""Declares tasks that workers in other languages run."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from onbeat.model.errors import Misconfigured
from onbeat.model.remote_task import RemoteTask
from onbeat.operations.remote_tasks import read_remote_task


def remote_task(
    name: str,
    *,
    requires: Iterable[str] = (),
    key: str | None = None,
    unique_for: timedelta | float | str | None = None,
) -> RemoteTask:
    """A task of workers in other languages, for `Options(remote_tasks=…)`.

    A submission without one of the params in `requires` is refused. `key`, such as
    `"export:{objectID}"`, makes the unique key of each submitted job of its params, and
    `unique_for` (a span, or `"always"`) is how long it stays taken after the job's end. Raises
    `Invalid`.
    """
    return read_remote_task(name, requires=requires, key=key, unique_for=unique_for)


def by_name(declared: Collection[str | RemoteTask]) -> Mapping[str, RemoteTask]:
    """The declarations by name. Raises `Misconfigured` for a name with two."""
    tasks = [RemoteTask(name=task) if isinstance(task, str) else task for task in declared]
    found = {task.name: task for task in tasks}
    if len(found) < len(tasks):
        raise Misconfigured("remote_tasks: each task is declared once", "remote_tasks")
    return found
