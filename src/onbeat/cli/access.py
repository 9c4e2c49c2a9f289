"""`onbeat key` and `onbeat audit`."""

from typing import Any

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.option_types import span
from onbeat.cli.options import cursor_option, field, limit_option
from onbeat.cli.output import plain, show_json, show_message, show_table, tell_cursor
from onbeat.cli.times import in_short, local_now
from onbeat.model.principal import Scope

OBJECT_CHARS = 60


@click.group()
def key() -> None:
    """API keys in the store: create, list, revoke."""


@key.command(
    "new",
    epilog=examples(
        "onbeat key new grafana --scope read",
        "onbeat key new exporter --scope work --queue exports --expires 90d",
    ),
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="What it may be used for; may be given several times.",
)
@click.option(
    "--queue",
    "queues",
    metavar="QUEUE",
    multiple=True,
    help="Work on jobs of this queue only; may be given several times.",
)
@field(
    "--expires",
    type=span,
    metavar="SPAN",
    help="Let it in for so long, such as 90d.  [default: for ever]",
)
@json_option
@with_client
def create_key(connection: ConnectionOptions, *, as_json: bool, **draft: Any) -> None:
    """Create a key and print it. It is shown only once: the store keeps its SHA-256."""
    body = {name: value for name, value in draft.items() if value}
    answer = connection.call("key.create", None, body)
    show_json(answer) if as_json else show_message(answer["key"])


@key.command("list", epilog=examples("onbeat key list"))
@json_option
@with_client
def list_keys(connection: ConnectionOptions, *, as_json: bool) -> None:
    """List the keys of the store, without the keys themselves."""
    answer = connection.call("key.list")
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["name"]),
            plain("+".join(one["scopes"])),
            plain(",".join(one["queues"] or ()) or "all"),
            plain(in_short(one["expires_at"], now)),
            plain(in_short(one["used_at"], now)),
        )
        for one in answer["keys"]
    ]
    show_table(("NAME", "SCOPES", "QUEUES", "EXPIRES", "USED"), rows, empty="no keys")


@key.command("sessions", epilog=examples("onbeat key sessions"))
@json_option
@with_client
def list_sessions(connection: ConnectionOptions, *, as_json: bool) -> None:
    """List the sessions of the dashboard; `key revoke NAME` ends one."""
    answer = connection.call("session.list")
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(one["name"]),
            plain(one["key"]),
            plain("+".join(one["scopes"])),
            plain(in_short(one["used_at"], now)),
            plain(in_short(one["expires_at"], now)),
        )
        for one in answer["sessions"]
    ]
    show_table(("NAME", "KEY", "SCOPES", "USED", "ENDS"), rows, empty="nobody is logged in")


@key.command("revoke", epilog=examples("onbeat key revoke grafana"))
@click.argument("name")
@json_option
@with_client
def revoke(connection: ConnectionOptions, *, name: str, as_json: bool) -> None:
    """Revoke a key: every process rejects it within seconds."""
    answer = connection.call("key.revoke", {"name": name})
    show_json(answer) if as_json else show_message("revoked")


@click.command(
    epilog=examples(
        "onbeat audit",
        "onbeat audit --actor grafana --since 2026-01-01T00:00:00Z --json",
        "onbeat audit --object queue/default",
    )
)
@field("--actor", metavar="NAME", help="Only changes by this key; `local` is the command line.")
@field("--action", metavar="NAME", help="Only of this kind, such as queue.pause.")
@field("--object", metavar="KIND/ID", help="Only of this object, such as queue/default.")
@field("--since", metavar="INSTANT", help="Only from then on.")
@field("--until", metavar="INSTANT", help="Only before then.")
@limit_option()
@cursor_option
@json_option
@with_client
def audit(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List who changed what, newest first."""
    answer = connection.call("audit.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(in_short(one["at"], now)),
            plain(one["actor"]),
            plain(one["action"]),
            plain(one["object"][:OBJECT_CHARS]),
            plain(one["outcome"]),
        )
        for one in answer["records"]
    ]
    show_table(("TIME", "ACTOR", "ACTION", "OBJECT", "OUTCOME"), rows, empty="no changes")
    tell_cursor(answer)
