"""The interface of `Onbeat` that its facades use."""

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from onbeat.app.backend import Backend
from onbeat.app.options import Options
from onbeat.recurrence import Recurrence

Value = TypeVar("Value")


class FacadeHost(Protocol):
    """The interface of `Onbeat` that its facades use."""

    backend: Backend
    functions: dict[str, Recurrence]
    options: Options

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value: ...
