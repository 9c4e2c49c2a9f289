"""`onbeat settings`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.output import plain, show_json, show_table

DEFAULT = "default"


def own(connection: ConnectionOptions) -> Sequence[Mapping[str, Any]]:
    """Those of here, for which no store is opened."""
    from onbeat.settings.answers import setting_answers  # noqa: PLC0415  loaded on demand

    return [msgspec.to_builtins(one) for one in setting_answers(connection.settings())]


@click.command("settings", epilog=examples("onbeat settings --changed"))
@click.option("--changed", is_flag=True, help="Only those that are not at their defaults.")
@json_option
@with_client
def settings(connection: ConnectionOptions, *, changed: bool, as_json: bool) -> None:
    """Show the settings and where each was set: those of the service, else those of here."""
    found = connection.call("settings.show")["settings"] if connection.server else own(connection)
    rows = [one for one in found if not changed or one["origin"] != DEFAULT]
    if as_json:
        show_json({"settings": rows})
        return
    table = [(plain(one["key"]), plain(one["value"]), plain(one["origin"])) for one in rows]
    show_table(("KEY", "VALUE", "ORIGIN"), table, empty="all are at their defaults")
