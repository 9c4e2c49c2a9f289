"""`onbeat alert`."""

from typing import Any

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.option_types import span
from onbeat.cli.options import field, limit_option
from onbeat.cli.output import plain, show_json, show_message, show_table
from onbeat.cli.times import in_short, local_now, read_instant, utc_text


@click.group()
def alert() -> None:
    """Alerts: what is wrong now, and silences."""


@alert.command("list", epilog=examples("onbeat alert list", "onbeat alert list --ended"))
@click.option("--ended", "is_ended", is_flag=True, help="Those that ended, of the last 30 days.")
@limit_option(100)
@json_option
@with_client
def list_alerts(
    connection: ConnectionOptions, *, is_ended: bool, limit: int, as_json: bool
) -> None:
    """List what is wrong, the newest first, and the silences that have not ended."""
    state = "ended" if is_ended else "open"
    answer = connection.call("alert.list", {"state": state, "limit": limit})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["level"] + (" (silenced)" if one["silenced"] else "")),
            plain(one["key"]),
            plain(in_short(one["since"], now)),
            plain(in_short(one["ended_at"], now)),
            plain(one["times"]),
            plain(f"{one['text']}: {one['detail']}"),
        )
        for one in answer["alerts"]
    ]
    empty = "no alert ended" if is_ended else "nothing is wrong"
    show_table(("LEVEL", "KEY", "SINCE", "ENDED", "TIMES", "WHAT"), rows, empty=empty)
    for one in answer["silences"]:
        note = f" ({one['note']})" if one["note"] else ""
        start = f" from {in_short(one['starts_at'], now)}" if one["starts_at"] else ""
        until = in_short(one["until"], now)
        show_message(f"silence {one['id']}: {one['match']}{start} until {until}{note}")


@alert.command(
    "silence",
    epilog=examples(
        "onbeat alert silence 'late:billing' --for 2h --note 'migration'",
        "onbeat alert silence '*' --until 2026-12-01T06:00:00Z",
        "onbeat alert silence '*' --from 2026-12-01T02:00:00Z --for 4h",
    ),
)
@click.argument("match")
@field("--from", "start", metavar="INSTANT", help="When it begins; now without it.")
@field("--for", "span", type=span, metavar="SPAN", help="For so long, such as 2h.")
@field("--until", metavar="INSTANT", help="Until then.")
@field("--note", metavar="TEXT", help="Why, for others who look.")
@json_option
@with_client
def silence(
    connection: ConnectionOptions,
    *,
    match: str,
    start: str | None,
    span: str | None,
    until: str | None,
    note: str | None,
    as_json: bool,
) -> None:
    """Tell no alerts whose key is MATCH, which may end with *, for a while."""
    if (span is None) == (until is None):
        raise click.UsageError("give --for or --until")
    body: dict[str, Any] = {"match": match}
    if start is not None:
        body["from"] = utc_text(read_instant(start, "--from"))
    if span is not None:
        body["for"] = span
    if until is not None:
        body["until"] = utc_text(read_instant(until, "--until"))
    if note is not None:
        body["note"] = note
    answer = connection.call("alert.silence", None, body)
    show_json(answer) if as_json else show_message(answer["id"])


@alert.command("unsilence", epilog=examples("onbeat alert unsilence 0199a3f2-…"))
@click.argument("id")
@json_option
@with_client
def unsilence(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """End a silence; open alerts that it held back are sent."""
    answer = connection.call("alert.unsilence", {"id": id})
    show_json(answer) if as_json else show_message("silence ended")
