"""Detects attempts that failed because this machine ran out of resources, and postpones them."""

import errno
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from onbeat.model.outcome import Snoozed

MEANS: Final = {
    errno.EMFILE: "open files",
    errno.ENFILE: "open files of the whole machine",
    errno.ENOMEM: "memory",
    errno.ENOBUFS: "memory for sockets",
    errno.EADDRNOTAVAIL: "local ports",
}
NO_THREAD: Final = "can't start new thread"  # the interpreter's message; the error has no number

# Shortages are usually short, and a retry costs next to nothing.
PUT_OFF_SECONDS_MIN: Final = 1.0
PUT_OFF_SECONDS_MAX: Final = 5.0


class Shortage(Exception):
    """A local resource is exhausted; the attempt did not begin, or did not get far."""

    def __init__(self, means: str) -> None:
        super().__init__(f"out of {means}")
        self.means = means


def shortage_in(error: BaseException) -> str | None:
    """The resource that this error or one of its causes reports as exhausted."""
    return next((means for each in causes(error) if (means := means_of(each))), None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, newest first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def means_of(error: BaseException) -> str | None:
    match error:
        case Shortage(means=means):
            return means
        case OSError():
            return MEANS.get(error.errno or 0)
        case MemoryError():
            return MEANS[errno.ENOMEM]
        case RuntimeError() if str(error) == NO_THREAD:
            return "threads"
        case _:
            return None


def postpone(means: str, chance: float) -> Snoozed:
    """Costs no attempt. `chance` spreads the return of jobs that were postponed together."""
    seconds = PUT_OFF_SECONDS_MIN + chance * (PUT_OFF_SECONDS_MAX - PUT_OFF_SECONDS_MIN)
    return Snoozed(timedelta(seconds=seconds), f"this worker was out of {means}")


def describe_error(error: BaseException) -> str:
    """The error's type and message, without the paths of this installation."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: [Errno {error.errno}] {error.strerror}"
    return f"{type(error).__name__}: {error}"
