"""Answers and errors as HTTP responses."""

from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from onbeat.model.errors import (
    Malformed,
    NotFound,
    OnbeatError,
    RateLimited,
    RequestInFlight,
    Unauthorized,
    Unavailable,
)
from onbeat.telemetry.structured_log import Log
from onbeat.wire.errors import Problem, ProblemAnswer, problem, status_of

JSON: Final = "application/json"
RETRY_SECONDS: Final = "1"
REPLAYED_HEADER: Final = "Idempotency-Replayed"
"""Set on the stored answer of an earlier request with the same key."""
NO_SUCH_METHOD: Final = "method_not_allowed"

lines = Log("onbeat.api")


def json_response(answer: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type=JSON)


def replayed_response(answer: object, status: int) -> Response:
    """The stored answer of an earlier request with the same key."""
    response = json_response(answer, status)
    response.headers[REPLAYED_HEADER] = "true"
    return response


def error_response(error: Exception, request: Request) -> Response:
    """The only place where an error becomes a response."""
    if isinstance(error, HTTPException):
        return router_error_response(error, request)
    if isinstance(error, ClientDisconnect):
        error = Malformed("The request ended before its body was whole")
    if not isinstance(error, OnbeatError):
        # The query may hold secrets, the path does not.
        lines.error("api.failed", error, method=request.method, path=request.url.path)
    response = json_response(ProblemAnswer(problem(error)), status_of(error).status)
    match error:
        case Unauthorized():
            response.headers["WWW-Authenticate"] = 'Bearer realm="onbeat"'
        case RateLimited(retry_after=seconds):
            response.headers["Retry-After"] = str(seconds)
        case Unavailable() | RequestInFlight():
            response.headers["Retry-After"] = RETRY_SECONDS
        case _:
            pass
    return response


def router_error_response(error: HTTPException, request: Request) -> Response:
    if error.status_code != 405:
        return error_response(NotFound(f"There is nothing at {request.url.path[:200]}"), request)
    result = Problem(code=NO_SUCH_METHOD, message=f"{request.method} is not possible here")
    response = json_response(ProblemAnswer(result), 405)
    response.headers.update(error.headers or {})
    return response
