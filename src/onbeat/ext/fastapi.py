"""Onbeat in an application of FastAPI: its life, a dependency, errors, answers, a mount."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Final

import msgspec
from fastapi import Depends, FastAPI, Request
from fastapi.encoders import ENCODERS_BY_TYPE, encoders_by_class_tuples
from fastapi.responses import Response
from starlette.requests import HTTPConnection

from onbeat.api.responses import error_response
from onbeat.app.client import Onbeat
from onbeat.ext.mounted import Mounted
from onbeat.model.errors import OnbeatError
from onbeat.wire.answer import AnswerRecord

__all__ = ["Beat", "Mounted", "answer_errors", "get_beat", "lifespan"]

STATE: Final = "onbeat"

# What `jsonable_encoder` makes of a record that a route returns without an annotation.
ENCODERS_BY_TYPE[AnswerRecord] = AnswerRecord.to_dict
ENCODERS_BY_TYPE[msgspec.Raw] = msgspec.json.decode  # the result of a job
encoders_by_class_tuples[AnswerRecord.to_dict] += (AnswerRecord,)


def lifespan(
    beat: Onbeat, *, runs_jobs: bool = True
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """`FastAPI(lifespan=lifespan(beat))`: runs jobs in the application's event loop, and drains.

    With `runs_jobs=False` others run them, and the store is closed at the end.
    """

    @contextlib.asynccontextmanager
    async def live(app: FastAPI) -> AsyncGenerator[None, None]:
        setattr(app.state, STATE, beat)
        if runs_jobs:
            await beat.start()
        try:
            yield
        finally:
            for route in app.routes:
                mounted = getattr(route, "app", None)
                if isinstance(mounted, Mounted):
                    await mounted.aclose()
            await beat.aclose()

    return live


def get_beat(connection: HTTPConnection) -> Onbeat:
    """A dependency: the `Onbeat` that `lifespan` was given."""
    beat = getattr(connection.app.state, STATE, None)
    if not isinstance(beat, Onbeat):
        raise RuntimeError(  # noqa: TRY004  it is not the caller's argument
            "the application does not know its Onbeat: write FastAPI(lifespan=lifespan(beat))"
        )
    return beat


Beat = Annotated[Onbeat, Depends(get_beat)]
"""The annotation of a parameter that gets the `Onbeat`."""


def answer_errors(app: FastAPI) -> None:
    """Answer errors of Onbeat as its own API does: 404 for `NotFound`, 422 for `Invalid`, …"""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(error, request)

    app.add_exception_handler(OnbeatError, answer)
