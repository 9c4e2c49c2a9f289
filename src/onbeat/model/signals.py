"""What a handler may raise to say more than that it failed."""

from datetime import timedelta


class Snooze(Exception):
    """Run me again after `delay`: a timedelta, seconds, or text such as "90s"; costs no attempt."""

    def __init__(self, delay: timedelta | float | str) -> None:
        super().__init__(delay)
        self.delay = delay


class Cancel(Exception):
    """Give this job up on purpose; it ends cancelled, with `reason`."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(Exception):
    """This attempt failed; with `retryable=False` another try cannot help."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
