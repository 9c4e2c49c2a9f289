"""`onbeat settings`."""

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.output import plain, show_json, show_table

DEFAULT = "default"


@click.command("settings", epilog=examples("onbeat settings --changed"))
@click.option("--changed", is_flag=True, help="Only those that are not at their defaults.")
@json_option
@with_client
def settings(connection: ConnectionOptions, *, changed: bool, as_json: bool) -> None:
    """Show the settings and where each was set: those of the service, else those of here."""
    answer = connection.call("settings.show")
    rows = [one for one in answer["settings"] if not changed or one["origin"] != DEFAULT]
    if as_json:
        show_json({"settings": rows})
        return
    table = [(plain(one["key"]), plain(one["value"]), plain(one["origin"])) for one in rows]
    show_table(("KEY", "VALUE", "ORIGIN"), table, empty="all are at their defaults")
