"""Errors as they are told: one table from the error tree to codes and statuses."""

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
    TooLarge,
    Unauthorized,
    Unavailable,
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. `field` is the path of the one field at fault, `detail` says more."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class ProblemAnswer(msgspec.Struct, frozen=True):
    error: Problem


class Told(msgspec.Struct, frozen=True):
    """A code and the HTTP status that goes with it."""

    code: str
    status: int


# The first that an error is an instance of counts, so the narrower ones come first.
TABLE: Final[tuple[tuple[type[OnbeatError], Told], ...]] = (
    (TooLarge, Told("too_large", 413)),
    (Malformed, Told("invalid_request", 400)),
    (Invalid, Told("validation_failed", 422)),
    (NotFound, Told("not_found", 404)),
    (LeaseLost, Told("lease_lost", 409)),
    (Conflict, Told("conflict", 409)),
    (Unauthorized, Told("unauthorized", 401)),
    (Forbidden, Told("forbidden", 403)),
    (Unavailable, Told("unavailable", 503)),
)
INTERNAL: Final = Told("internal_error", 500)
UNEXPECTED: Final = Problem(code=INTERNAL.code, message="An unexpected error occurred")


def told(error: Exception) -> Told:
    for kind, answer in TABLE:
        if isinstance(error, kind):
            return answer
    return INTERNAL


def problem(error: Exception) -> Problem:
    """What a caller may know of `error`; of one that nobody foresaw, nothing."""
    code = told(error).code
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


def error_of(found: Problem) -> OnbeatError:
    """The error that a problem was made of, for clients that raise it again."""
    message = found.message
    for kind, answer in TABLE:
        if answer.code == found.code:
            if issubclass(kind, Invalid):
                return kind(message, found.field or "", found.detail or None)
            return kind(message)
    return OnbeatError(message)
