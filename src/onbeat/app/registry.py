"""What one program declares: tasks with their defaults, schedules, and functions of time."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from onbeat.app.call import Call, JobOptions, TaskOptions
from onbeat.app.predicates import HANDLERS
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.operations.context import TaskDefaults
from onbeat.recurrence import Budget, Recurrence, compile_spec
from onbeat.targets.handler import Handler, Registry
from onbeat.wire.schedules import ScheduleDraft

FIELDS: Final = TaskOptions.__annotations__.keys() - {"retry"}
"""The options of a task that are fields of its jobs as they are."""


class TaskRegistry(Registry):
    """Tasks by name with their default options, schedules and functions of time by key."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults: dict[str, JobOptions] = {}
        self.functions: dict[str, Recurrence] = {}
        self.schedules: list[tuple[str, ScheduleDraft]] = []

    def register(self, handler: Handler, options: JobOptions) -> None:
        """Raises ValueError when another function already has the name."""
        self.add(handler)
        self.defaults[handler.task] = options

    def find(self, task: str) -> Handler | None:
        """The handler of a task, or of a predicate by its lane."""
        return super().find(task) or HANDLERS.get(task)

    def task_defaults(self, task: str) -> TaskDefaults:
        fields = self.defaults.get(task)
        if fields is None:
            return TaskDefaults()
        return TaskDefaults(
            fields={name: getattr(fields.job, name) for name in FIELDS},
            retry=fields.retry or UNSET,
            encrypted=self.handlers[task].encrypted,
        )

    def decoder_of(self, call: Call[Any]) -> Callable[[bytes], Any]:
        """The decoder of the call's result, from its function's return annotation."""
        task = getattr(call.target, "task", None)
        handler = self.handlers.get(task) if task is not None else None
        return handler.decode_result if handler is not None else decode_json

    def compile(self, spec: RecurrenceSpec, budget: Budget | None = None, /) -> Recurrence:
        """Compile a stored rule; functions of time are found by the schedule's key."""
        result = self.functions.get(spec.text) if spec.kind == "function" else None
        return result.within(budget) if result is not None else compile_spec(spec, budget)


def decode_json(packed: bytes) -> Any:
    return msgspec.json.decode(packed)
