"""What one program declares: tasks with their defaults, schedules, and functions of time."""

from collections.abc import Callable
from typing import Any

import msgspec

from onbeat.app.call import Call, JobOptions
from onbeat.app.predicates import HANDLERS
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.operations.context import TaskDefaults
from onbeat.recurrence import Budget, Recurrence, compile_spec
from onbeat.targets.handler import Handler, Registry
from onbeat.wire.schedules import ScheduleDraft


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
        given: dict[str, Any] = {
            "encrypted": self.handlers[task].encrypted,
            "queue": fields.job.queue,
            "group": fields.job.group,
            "priority": fields.job.priority,
            "timeout": fields.job.timeout,
            "unique_for": fields.job.unique_for,
            "condition": fields.job.condition,
            "window": fields.job.window,
            "sensitive": fields.job.sensitive,
        }
        if fields.retry is not None:
            given["retry"] = fields.retry
        return TaskDefaults(**given)

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
