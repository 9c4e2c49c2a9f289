"""Onbeat in an application of Flask: `beat` by `current_beat`, errors as the API answers them."""

from typing import Final, cast

import msgspec
from flask import Flask, Response, current_app, jsonify
from flask.json.provider import DefaultJSONProvider
from werkzeug.local import LocalProxy

from onbeat.app.client import Onbeat
from onbeat.model.errors import OnbeatError, RateLimited, Unauthorized, Unavailable
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.errors import problem, status_of

__all__ = ["current_beat", "init_app"]

NAME: Final = "onbeat"
RETRY_SECONDS: Final = "1"


def init_app(app: Flask, beat: Onbeat) -> None:
    """Let views use `current_beat`, return answers of Onbeat, and raise its errors.

    The application only sends: `onbeat up` runs the jobs. Opens nothing.
    """
    app.extensions[NAME] = beat
    app.register_error_handler(OnbeatError, answer_error)
    provider = app.json
    if isinstance(provider, DefaultJSONProvider):
        plain = provider.default

        def default(value: object) -> object:
            if isinstance(value, msgspec.Raw):  # the result of a job
                return msgspec.json.decode(value)
            return value.to_dict() if isinstance(value, AnswerRecord) else plain(value)

        provider.default = default


def find_beat() -> Onbeat:
    """Raises RuntimeError where `init_app` was not called."""
    beat = current_app.extensions.get(NAME)
    if not isinstance(beat, Onbeat):
        raise RuntimeError(  # noqa: TRY004  it is not the caller's argument
            "the application does not know its Onbeat: call onbeat.ext.flask.init_app(app, beat)"
        )
    return beat


current_beat = cast("Onbeat", LocalProxy(find_beat))
"""The `Onbeat` of the current application."""


def answer_error(error: OnbeatError) -> Response:
    """The problem in the form of Onbeat's own API."""
    found = problem(error)
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    body = {name: value for name, value in fields.items() if isinstance(value, str)}
    response = jsonify(error=body)
    response.status_code = status_of(error).status
    match error:
        case Unauthorized():
            response.headers["WWW-Authenticate"] = 'Bearer realm="onbeat"'
        case RateLimited(retry_after=seconds):
            response.headers["Retry-After"] = str(seconds)
        case Unavailable():
            response.headers["Retry-After"] = RETRY_SECONDS
        case _:
            pass
    return response
