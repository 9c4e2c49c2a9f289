"""Types of options: values that no store and no service would take are bad usage, exit code 2.

They only check. The value goes on as it was typed, because the store or the service reads it again.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, get_args

import click

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.reaction import Keep
from onbeat.model.recurrence import DstFold, DstGap
from onbeat.model.retry import Backoff
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.rules.urls import checked_method, checked_url
from onbeat.wire.options import ALWAYS_TEXT
from onbeat.wire.values import read_span

VALUE: Final = "the value"


def checked(text: str, check: Callable[[str], object]) -> str:
    """The text; raises `BadParameter`, to which Click adds the name of the option."""
    try:
        check(text)
    except Invalid as error:
        raise click.BadParameter(str(error)) from None
    return text


def span(text: str) -> str:
    return checked(text, lambda text: read_span(text, VALUE))


def span_or_always(text: str) -> str:
    return text if text == ALWAYS_TEXT else span(text)


def url(text: str) -> str:
    return checked(text, checked_url)


def method(text: str) -> str:
    return checked(text, checked_method)


def word_of(words: Iterable[Any]) -> "click.Choice[str]":
    return click.Choice([str(word) for word in words])


STATE: Final = word_of(JobState)
STATUS: Final = word_of(ScheduleStatus)
NEW_STATUS: Final = word_of((ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED))
CATCH_UP: Final = word_of(CatchUp)
OVERLAP: Final = word_of(Overlap)
BACKOFF: Final = word_of(Backoff)
KEEP: Final = word_of(Keep)
DST_GAP: Final = word_of(get_args(DstGap))
DST_FOLD: Final = word_of(get_args(DstFold))
