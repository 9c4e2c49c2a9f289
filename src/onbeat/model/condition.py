"""What must hold before a job starts."""

from datetime import timedelta

import msgspec

from onbeat.model.target import HandlerTarget, HttpTarget


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """`text` is CEL, or `predicate` names a Python function; judged before each first attempt.

    `ask` is called first; its answer is a fact. Where the condition is false the job is cancelled,
    or with `postpone` put off by that span.
    """

    text: str | None = msgspec.field(default=None, name="if")
    predicate: str | None = None
    ask: HttpTarget | HandlerTarget | None = None
    postpone: timedelta | None = None


class Read(msgspec.Struct, frozen=True):
    """A name that a text reads, and the member of it, as in `job.queue`; `place` is in words.

    `member` is None where the text reads the whole of it, and `is_test` is true in `has()`.
    """

    name: str
    member: str | None
    place: str
    is_test: bool = False


class Window(msgspec.Struct, frozen=True, omit_defaults=True):
    """Times at which a job may start: on `days` (0 is Monday), from `start` up to `end`.

    `start` and `end` are minutes after midnight in the zone `timezone`; with `end` at or before
    `start` the window ends on the next day.
    """

    start: int
    end: int
    timezone: str
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
