"""`onbeat event`."""

from collections.abc import Mapping
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.options import (
    cursor_option,
    field,
    given_options,
    instants,
    json_of,
    limit_option,
    text_or_file,
)
from onbeat.cli.output import (
    heading,
    json_text,
    plain,
    show_json,
    show_message,
    show_record,
    show_table,
    tell_cursor,
)
from onbeat.cli.times import in_full, in_short, local_now

ATTRIBUTES: Final = ("subject", "datacontenttype", "dataschema")

source_option = field("--source", metavar="URI", help="Its source, where several have this id.")


@click.group()
def event() -> None:
    """Events: facts that schedules react to."""


@event.command(
    "send",
    epilog=examples(
        "onbeat event send order.paid --data '{\"order\": 7}'",
        "onbeat event send order.paid --source /shop --id order-7 --data @order.json",
    ),
)
@click.argument("type")
@field("--data", metavar="JSON", help="Any JSON, or @FILE.")
@field("--source", metavar="URI", help="Where it happened.  [default: the name of the key]")
@field("--id", metavar="ID", help="Stored once for each source and id.  [default: a new one]")
@field("--subject", metavar="TEXT", help="What it is about, within its source.")
@field("--time", metavar="INSTANT", help="When it happened.  [default: now]")
@json_option
@with_client
def send(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """Send an event. Prints its id."""
    body = {
        **given_options(values, "type", "source", "id", "subject"),
        **instants(values, "time"),
    }
    if values["data"] is not None:
        body["data"] = json_of(text_or_file(values["data"]), object, "--data", "'{\"order\": 7}'")
    answer = connection.call("event.publish", body=body)
    if as_json:
        show_json(answer)
        return
    show_message(answer["id"] if answer["created"] else f"{answer['id']} was there already")


@event.command("list", epilog=examples("onbeat event list --type 'order.*' --source /shop"))
@field("--type", metavar="TYPE", help="Only of this type; a * at the end stands for any rest.")
@field("--source", metavar="URI", help="Only of this source; likewise.")
@limit_option()
@cursor_option
@json_option
@with_client
def list_events(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List events, newest first."""
    answer = connection.call("event.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["id"]),
            plain(in_short(one["received_at"], now)),
            plain(len(one["jobs"]) if one["routed_at"] else None),
        )
        for one in answer["events"]
    ]
    kinds = [f"{one['type']} from {one['source']}" for one in answer["events"]]
    columns = ("ID", "TIME", "JOBS")
    show_table(columns, rows, empty="no events", right=("JOBS",), below=kinds)
    tell_cursor(answer)


@event.command("show")
@click.argument("id")
@source_option
@json_option
@with_client
def show(connection: ConnectionOptions, *, id: str, source: str | None, as_json: bool) -> None:
    """Show an event, and the jobs that it made or why none."""
    one = connection.call("event.show", {"id": id, "source": source})
    if as_json:
        show_json(one)
        return
    show_record(event_fields(one))
    if one["verdicts"]:
        heading("Schedules")
        rows = [
            tuple(plain(verdict[name]) for name in ("schedule_id", "job_id", "reason"))
            for verdict in one["verdicts"]
        ]
        show_table(("SCHEDULE", "JOB", "REASON"), rows, empty="none")
    if "data" in one:
        heading("Data")
        show_message(json_text(one["data"]))
    elif "data_base64" in one:
        heading("Data in base64")
        show_message(one["data_base64"])


def event_fields(one: Mapping[str, Any]) -> dict[str, str]:
    now = local_now()
    routed = in_full(one["routed_at"], now) if one["routed_at"] else "not yet"
    return {
        **{name: plain(one[name]) for name in ("id", "source", "type")},
        "time": plain(in_full(one["time"], now)),
        **{name: plain(one[name]) for name in ATTRIBUTES if name in one},
        **{name: plain(value) for name, value in one.get("extensions", {}).items()},
        "received": plain(in_full(one["received_at"], now)),
        "routed": plain(routed),
        **({} if one["verdicts"] or not one["routed_at"] else {"made": NOTHING}),
    }


NOTHING: Final = "no job: no schedule asks for this type and source"


@event.command("replay")
@click.argument("id")
@source_option
@json_option
@with_client
def replay(connection: ConnectionOptions, *, id: str, source: str | None, as_json: bool) -> None:
    """Decide again what an event makes; jobs that it made stay."""
    answer = connection.call("event.replay", {"id": id, "source": source})
    show_json(answer) if as_json else show_message(answer["message"])
