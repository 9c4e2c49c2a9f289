"""`onbeat next` and `onbeat explain`: rules, without a store or a service."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import click

from onbeat.cli.client import json_option
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import BadRule
from onbeat.cli.options import text_or_file
from onbeat.cli.output import plain, show_json, show_message, show_record, show_table
from onbeat.cli.times import local_now, read_instant, relative, utc_text, zone_name, zone_of
from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import PREVIEW_MAX
from onbeat.recurrence import (
    Note,
    Recurrence,
    anchor,
    compile_spec,
    guess,
    needs_anchor,
    notes_on_text,
)

NEXT_EPILOG: Final = """\b
RULE is an RRULE line or iCalendar block (or @FILE), a cron expression,
cron(…) or rate(…) as in AWS, a span, a phrase, a repeating interval of
ISO 8601, or an instant.

\b
Examples:
  onbeat next "0 9 * * MON-FRI" --tz Europe/Berlin
  onbeat next "FREQ=MONTHLY;BYDAY=-1FR" -n 3 --after 2027-01-01
  onbeat next "30 2 * * *" --tz America/New_York --after 2027-03-13
  onbeat next "every 90m" --json
  onbeat next "every monday at 9:00" --tz Europe/Berlin
  onbeat next R5/2027-01-01T00:00:00Z/P1D"""

LOCAL_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)
"""An instant without its offset, which `schedule add --at` reads in the same way."""

EXPLAINED: Final = 10
"""The number of occurrences that show the pattern of a rule."""

rule_argument = click.argument("rule")
zone_option = click.option(
    "--tz", "--timezone", "tz", metavar="ZONE", help="IANA zone of the rule.  [default: UTC]"
)


@click.command("next", epilog=NEXT_EPILOG)
@rule_argument
@zone_option
@click.option(
    "-n", "--count", type=click.IntRange(1, PREVIEW_MAX), default=10, show_default=True,
    help="How many occurrences.",
)  # fmt: skip
@click.option("--after", metavar="INSTANT", help="Those after this.  [default: now]")
@json_option
def show_next(rule: str, *, tz: str | None, count: int, after: str | None, as_json: bool) -> None:
    """Show when RULE fires next, as for a schedule created now."""
    now = local_now()
    since = read_instant(after, "--after", zone_of(tz)) if after else now
    with point_at_fault():
        recurrence = read_rule(rule, tz, since)
        instants = recurrence.take(count, since)
        notes = notes_of(rule, recurrence, since, count)
        description = recurrence.describe()
    zone = zone_shown(recurrence)
    if as_json:
        show_json(
            {
                "occurrences": [utc_text(instant) for instant in instants],
                "description": description,
                "notes": [note.text for note in notes],
                "timezone": recurrence.tz,
                "details": [detail(instant, zone, notes) for instant in instants],
            }
        )
        return
    show_message(description)
    show_occurrences(instants, zone, notes, now)


@contextmanager
def point_at_fault() -> Generator[None]:
    """Report an invalid rule as a usage error with a caret at its position."""
    try:
        yield
    except BadRecurrence as error:
        raise BadRule(error) from error


def read_rule(text: str, tz: str | None, since: datetime) -> Recurrence:
    if text.endswith(".ics"):
        text = text_or_file(text)
    elif LOCAL_TIME.fullmatch(text.strip()):
        text = utc_text(read_instant(text, "RULE", zone_of(tz)))
    spec = guess(text, tz)
    return compile_spec(anchor(spec, since) if needs_anchor(spec) else spec)


def notes_of(text: str, recurrence: Recurrence, since: datetime, count: int) -> list[Note]:
    """Notes on the rule as it was typed, and on its occurrences."""
    return [*notes_on_text(text), *recurrence.notes(since, count)]


def zone_shown(recurrence: Recurrence) -> tzinfo | None:
    """The rule's own zone; the local zone for a rule in UTC, which is shown anyway."""
    return None if recurrence.tz == "UTC" else ZoneInfo(recurrence.tz)


def show_occurrences(
    instants: Sequence[datetime], zone: tzinfo | None, notes: Sequence[Note], now: datetime
) -> None:
    rows = [
        (
            plain(f"{local:%a}"),
            plain(f"{local:%Y-%m-%d %H:%M:%S}{fraction(local)} {zone_name(local)}"),
            plain(f"{instant:%Y-%m-%d %H:%M:%S}{fraction(instant)}Z"),
            plain(relative(instant, now)),
            "[yellow]![/]" if notes_at(instant, notes) else "",
        )
        for instant in instants
        for local in [instant.astimezone(zone)]
    ]
    show_table(
        ("DAY", "LOCAL TIME", "UTC", "", ""),
        rows,
        empty="no occurrence after this",
        whole=("DAY", "LOCAL TIME", "UTC"),
    )
    for note in notes:
        show_message(f"! {note_words(note, zone)}")


def fraction(instant: datetime) -> str:
    """The part of a second, where there is one: `.5`."""
    return f".{instant.microsecond:06d}".rstrip("0") if instant.microsecond else ""


def notes_at(instant: datetime, notes: Sequence[Note]) -> list[str]:
    return [note.text for note in notes if note.instant == instant]


def note_words(note: Note, zone: tzinfo | None) -> str:
    """The note, with its date if its text is about one."""
    if note.instant is None:
        return note.text
    local = note.instant.astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M} {zone_name(local)}: {note.text}"


def detail(instant: datetime, zone: tzinfo | None, notes: Sequence[Note]) -> dict[str, object]:
    local = instant.astimezone(zone)
    return {
        "at": utc_text(instant.astimezone(UTC)),
        "local": local.isoformat(),
        "weekday": f"{local:%A}",
        "notes": notes_at(instant, notes),
    }


@click.command("explain", epilog=examples('onbeat explain "0 0 13 * FRI"'))
@rule_argument
@zone_option
@json_option
def explain(rule: str, *, tz: str | None, as_json: bool) -> None:
    """Explain RULE in words, with its next occurrences and surprising behaviour."""
    now = local_now()
    with point_at_fault():
        spec = guess(rule, tz)
        recurrence = read_rule(rule, tz, now)
        instants = recurrence.take(EXPLAINED, now)
        notes = notes_of(rule, recurrence, now, EXPLAINED)
        fields = {
            "kind": spec.kind,
            "text": spec.text,
            "timezone": recurrence.tz,
            "description": recurrence.describe(),
        }
    if as_json:
        texts = {"notes": [note.text for note in notes]}
        show_json(fields | {"occurrences": [utc_text(instant) for instant in instants]} | texts)
        return
    show_record({name: plain(value) for name, value in fields.items()})
    show_message("")
    show_occurrences(instants, zone_shown(recurrence), notes, now)
