"""Answers and errors as HTTP responses."""

from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from onbeat.model.errors import Malformed, NotFound, OnbeatError, Unauthorized, Unavailable
from onbeat.telemetry.lines import Log
from onbeat.wire.problems import Problem, ProblemAnswer, problem, told

JSON: Final = "application/json"
RETRY_SECONDS: Final = "1"
NO_SUCH_METHOD: Final = "method_not_allowed"

lines = Log("onbeat.api")


def answered(answer: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type=JSON)


def refused(error: Exception, request: Request) -> Response:
    """The one place where an error becomes a response."""
    if isinstance(error, HTTPException):
        return refused_by_router(error, request)
    if isinstance(error, ClientDisconnect):
        error = Malformed("The request ended before its body was whole")
    if not isinstance(error, OnbeatError):
        # The query may hold secrets, the path does not.
        lines.error("api.failed", error, method=request.method, path=request.url.path)
    response = answered(ProblemAnswer(problem(error)), told(error).status)
    match error:
        case Unauthorized():
            response.headers["WWW-Authenticate"] = 'Bearer realm="onbeat"'
        case Unavailable():
            response.headers["Retry-After"] = RETRY_SECONDS
        case _:
            pass
    return response


def refused_by_router(error: HTTPException, request: Request) -> Response:
    if error.status_code != 405:
        return refused(NotFound(f"There is nothing at {request.url.path[:200]}"), request)
    found = Problem(code=NO_SUCH_METHOD, message=f"{request.method} is not possible here")
    response = answered(ProblemAnswer(found), 405)
    response.headers.update(error.headers or {})
    return response
