"""How often schedules will fire: what is asked, and the answer."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from onbeat.wire.values import InstantForm


class AskForecast(
    msgspec.Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}
):
    """A span, its end excluded; a day from now where nothing is said."""

    first: InstantForm | None = None
    last: InstantForm | None = None


class HourAnswer(msgspec.Struct, frozen=True):
    """`at` is the hour's first instant."""

    at: datetime
    fires: int


class ForecastAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every hour that the span touches, quiet ones too.

    `cut` names schedules that fire oftener than is counted, or whose rule only a program can read.
    """

    hours: tuple[HourAnswer, ...]
    fires: int
    schedules: Annotated[int, Meta(description="Active schedules that were looked at")]
    cut: tuple[str, ...]
