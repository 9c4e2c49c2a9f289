"""Wire records of the log lines of a job."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from onbeat.model.limits import INTEGER_MAX, LOG_LINES_SHOWN
from onbeat.model.log_line import JobLogLine
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.requests import IdForm, LimitForm

NO_FIELDS: Final = msgspec.Raw(b"{}")


class ShowJobLog(msgspec.Struct, frozen=True, kw_only=True):
    id: IdForm
    attempt: (
        Annotated[int, Meta(ge=1, le=INTEGER_MAX, description="Lines of this attempt only")] | None
    ) = None
    after: Annotated[
        int, Meta(ge=0, le=INTEGER_MAX, description="Lines after the one with this number")
    ] = 0
    limit: LimitForm = LOG_LINES_SHOWN


class LogLineAnswer(AnswerRecord, frozen=True, kw_only=True):
    """One line that the handler logged; `number` rises from line to line of a job."""

    number: int
    attempt: int
    at: datetime
    level: str
    logger: str
    text: str
    fields_json: msgspec.Raw = msgspec.field(name="fields")

    @property
    def fields(self) -> dict[str, Any]:
        """The `extra` of the line, in plain JSON values."""
        values: dict[str, Any] = plain_value(self.fields_json)
        return values


class JobLogAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Lines in the order in which they were logged.

    `after` is where the next page begins, null where no line is left now.
    """

    lines: tuple[LogLineAnswer, ...]
    limit: int
    after: int | None


def log_line_answer(line: JobLogLine) -> LogLineAnswer:
    return LogLineAnswer(
        number=line.number,
        attempt=line.attempt,
        at=line.at,
        level=line.level,
        logger=line.logger,
        text=line.text,
        fields_json=NO_FIELDS if line.fields is None else msgspec.Raw(line.fields.encode()),
    )
