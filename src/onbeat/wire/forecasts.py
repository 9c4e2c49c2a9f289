"""The request and the answer of a forecast."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from onbeat.wire.answer import AnswerRecord
from onbeat.wire.values import InstantForm


class AskForecast(
    msgspec.Struct, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}
):
    """A span without its end; by default one day from now."""

    first: InstantForm | None = None
    last: InstantForm | None = None


class HourAnswer(msgspec.Struct, frozen=True):
    """`at` is the hour's first instant."""

    at: datetime
    fires: int


class ForecastAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Every hour of the span, including those without fires.

    `cut` names schedules that fire more often than the limit, or whose rule exists only in a
    program. From the hour `counted_to` on, counts are at least so many; null where all are exact.
    """

    hours: tuple[HourAnswer, ...]
    fires: int
    schedules: Annotated[int, Meta(description="Active schedules that were looked at")]
    cut: tuple[str, ...]
    counted_to: datetime | None = None

    def is_least(self, hour: datetime) -> bool:
        """Whether an hour with this first instant may have more fires than were counted."""
        return self.counted_to is not None and hour >= self.counted_to
