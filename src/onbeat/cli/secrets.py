"""`onbeat secrets`."""

import asyncio
import secrets
import sys
from base64 import b64encode
from typing import Any

import click
import msgspec

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.rules.encryption import KEY_BYTES, read_key


@click.group("secrets")
def secrets_group() -> None:
    """Encryption at rest: create keys, re-encrypt stored data."""


@secrets_group.command("new-key", epilog=examples("onbeat secrets new-key 2026-11"))
@click.argument("id")
@json_option
def new_key(id: str, *, as_json: bool) -> None:
    """Create a key for `secrets.keys` and print it. ID names it in encrypted data."""
    text = f"{id}:{b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"
    read_key(text)
    click.echo(msgspec.json.encode({"id": id, "key": text}).decode() if as_json else text)


@secrets_group.command(
    "rotate",
    epilog=examples(
        "onbeat secrets rotate",
        "onbeat secrets rotate --server https://onbeat.internal --json",
    ),
)
@json_option
@with_client
def rotate(connection: ConnectionOptions, *, as_json: bool) -> None:
    """Re-encrypt all stored data with the first of `secrets.keys`.

    Jobs run meanwhile, and it may be interrupted and repeated. Exit code 1 where some data is still
    under another key.
    """
    # Imported here: the library lacks the packages for tables, and `new-key` works without them.
    from onbeat.cli.output import show_json, show_message  # noqa: PLC0415

    quiet = as_json or not sys.stderr.isatty()
    total = asyncio.run(rotate_stored(connection, quiet=quiet))
    if as_json:
        show_json(total)
    elif not total["unreadable"]:
        show_message(f"{total['changed']} re-encrypted; all data uses key {total['key']}")
    if total["unreadable"]:
        raise click.ClickException(
            f"{total['unreadable']} of {total['scanned']} are under a key that is not in"
            " `secrets.keys`, or are being changed by others; keep the former keys"
        )


async def rotate_stored(connection: ConnectionOptions, *, quiet: bool) -> dict[str, Any]:
    from onbeat.app.secrets import ignore_progress, rotate_all  # noqa: PLC0415  as above
    from onbeat.cli.backend import open_backend  # noqa: PLC0415

    place = connection.server, connection.api_key, connection.settings
    async with open_backend(*place) as backend:
        total = await rotate_all(backend, ignore_progress if quiet else show_progress)
    return msgspec.structs.asdict(total)


def show_progress(scanned: int, *, is_last: bool) -> None:
    click.echo(f"\r{scanned} looked at", nl=is_last, err=True)
