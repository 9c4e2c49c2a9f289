"""What may surprise in a rule: said when it is made or shown, never an error."""

from typing import Literal, NamedTuple

from datetime import datetime

from onbeat.recurrence.sets import Core
from onbeat.recurrence.spec import RecurrenceSpec


class Note(NamedTuple):
    """`kind` is for programs, `text` for people; `instant` is None for the rule as a whole."""

    kind: str
    text: str
    instant: datetime | None = None


def notes_on(spec: RecurrenceSpec, core: Core, instant: int, count: int) -> list[Note]:
    return []
