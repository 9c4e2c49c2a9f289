"""`onbeat backup`."""

from pathlib import Path

import click

from onbeat.app.backup import back_up_store
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.examples import examples
from onbeat.cli.migrate import store_option
from onbeat.cli.output import progress, show_json, show_message


@click.command("backup", epilog=examples("onbeat backup /backups/onbeat-$(date +%F).db"))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@store_option
@config_option
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
def backup(
    file: Path, store: str | None, config: Path | None, *, force: bool, as_json: bool
) -> None:
    """Copy a SQLite store to FILE while it is in use, and check the copy.

    FILE appears once the copy is whole and durable. To restore, stop every process and put it in
    place of the store.
    """
    url = ConnectionOptions(store=store, config=config).settings().store
    with progress("bytes", None) as advance:
        seen = 0

        def show(written: int, _total: int) -> None:
            nonlocal seen
            advance(written - seen)
            seen = written

        size = back_up_store(url, file.absolute(), show, replace=force)
    if as_json:
        show_json({"file": str(file), "bytes": size})
    else:
        show_message(f"{file}: {size / 1_000_000:.1f} MB, whole")
