"""Exceptions that a handler may raise to snooze, cancel or fail its job."""

from datetime import timedelta


class Snooze(Exception):
    """Run this job again after `delay`: a timedelta, seconds, or text such as "90s".

    A snooze costs no attempt.
    """

    def __init__(self, delay: timedelta | float | str) -> None:
        super().__init__(delay)
        self.delay = delay


class Cancel(Exception):
    """Cancel this job on purpose, with `reason`."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(Exception):
    """Fail this attempt; with `retryable=False` the job is not retried."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
