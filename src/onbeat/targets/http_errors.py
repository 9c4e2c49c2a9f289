"""Why a request got no answer, or none that can be taken."""


class NoAnswer(Exception):
    """The connection was closed before the head of an answer was complete."""


class ConnectionBroke(OSError):
    """The connection broke before the head of an answer was complete."""


class ConnectionTooSlow(TimeoutError):
    """There was no connection within the `connect_timeout` of the target."""


class AnswerError(Exception):
    """An answer that cannot be taken; its endpoint is up."""


class BrokeOff(AnswerError):
    """The connection ended in the middle of the body."""


class TooManyHeaders(AnswerError):
    """The headers exceed the limits."""


class OverBounds(AnswerError):
    """An answer that is not proper HTTP/1.1, or with too much before or around its body."""
