"""Which errors are about this machine's means, and what becomes of their jobs."""

import errno
import socket
from datetime import timedelta
from typing import Any

import pytest

from onbeat.model.errors import Unavailable
from onbeat.rules.shortage import (
    PUT_OFF_SECONDS_MAX,
    PUT_OFF_SECONDS_MIN,
    Shortage,
    describe_error,
    postpone,
    shortage_in,
)

SHORT = [
    (OSError(errno.EMFILE, "Too many open files", "/opt/onbeat/http.py"), "open files"),
    (OSError(errno.ENFILE, "Too many"), "open files of the whole machine"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
    (OSError(errno.ENOBUFS, "No buffer space"), "memory for sockets"),
    (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "local ports"),
    (MemoryError(), "memory"),
    (RuntimeError("can't start new thread"), "threads"),
    (Shortage("processes"), "processes"),
]
OTHERS = [
    OSError(errno.ECONNREFUSED, "refused"),
    OSError(errno.EACCES, "denied"),
    OSError("no number"),
    socket.gaierror(socket.EAI_AGAIN, "later"),
    RuntimeError("another"),
    ValueError(errno.EMFILE),
]


@pytest.mark.parametrize(("error", "means"), SHORT)
def test_what_is_short_is_named(error: Any, means: str) -> None:
    assert shortage_in(error) == means


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_are_somebodys_failure(error: Any) -> None:
    assert shortage_in(error) is None


def test_the_cause_is_looked_at_and_what_was_raised_on_the_way() -> None:
    short = OSError(errno.EMFILE, "Too many open files")
    error = Unavailable("no broker")
    error.__cause__ = short
    assert shortage_in(error) == "open files"
    error.__cause__, error.__suppress_context__, error.__context__ = None, False, short
    assert shortage_in(error) == "open files"
    error.__suppress_context__ = True
    assert shortage_in(error) is None


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert shortage_in(one) is None


def test_the_return_is_spread() -> None:
    assert postpone("memory", 0.0).delay == timedelta(seconds=PUT_OFF_SECONDS_MIN)
    assert postpone("memory", 1.0).delay == timedelta(seconds=PUT_OFF_SECONDS_MAX)
    assert postpone("memory", 0.5).reason == "this worker was out of memory"


def test_no_path_of_the_installation_is_told() -> None:
    answer = describe_error(
        OSError(errno.ENOENT, "No such file or directory", "/opt/onbeat/http.py")
    )
    assert answer == "FileNotFoundError: [Errno 2] No such file or directory"
    assert describe_error(ValueError("boom")) == "ValueError: boom"
