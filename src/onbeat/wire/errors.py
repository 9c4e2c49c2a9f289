"""Errors on the wire: one table from error classes to codes and statuses."""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    Malformed,
    NotFound,
    OnbeatError,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error. `field` is the path of the single invalid field, `detail` has more information."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class ProblemAnswer(msgspec.Struct, frozen=True):
    error: Problem


class ErrorStatus(msgspec.Struct, frozen=True):
    """A code and its HTTP status."""

    code: str
    status: int


# The first match counts, so subclasses come first.
TABLE: Final[tuple[tuple[type[OnbeatError], ErrorStatus], ...]] = (
    (TooLarge, ErrorStatus("too_large", 413)),
    (Malformed, ErrorStatus("invalid_request", 400)),
    (Invalid, ErrorStatus("validation_failed", 422)),
    (NotFound, ErrorStatus("not_found", 404)),
    (LeaseLost, ErrorStatus("lease_lost", 409)),
    (Conflict, ErrorStatus("conflict", 409)),
    (Unauthorized, ErrorStatus("unauthorized", 401)),
    (Forbidden, ErrorStatus("forbidden", 403)),
    (RateLimited, ErrorStatus("rate_limited", 429)),
    (Unavailable, ErrorStatus("unavailable", 503)),
)
INTERNAL: Final = ErrorStatus("internal_error", 500)
UNEXPECTED: Final = Problem(code=INTERNAL.code, message="An unexpected error occurred")


def status_of(error: Exception) -> ErrorStatus:
    for kind, answer in TABLE:
        if isinstance(error, kind):
            return answer
    return INTERNAL


def problem(error: Exception) -> Problem:
    """The public part of an error; unexpected errors show no details."""
    code = status_of(error).code
    if code == INTERNAL.code:
        return UNEXPECTED
    if isinstance(error, Invalid):
        return Problem(
            code=code,
            message=str(error),
            field=error.field or UNSET,
            detail=error.detail or UNSET,
        )
    return Problem(code=code, message=str(error))


def error_of(result: Problem) -> OnbeatError:
    """The error of a problem, for clients that raise it again."""
    message = result.message
    for kind, answer in TABLE:
        if answer.code == result.code:
            if issubclass(kind, Invalid):
                return kind(message, result.field or "", result.detail or None)
            return kind(message)
    return OnbeatError(message)
