"""`onbeat secrets`."""

import secrets
from base64 import b64encode
from typing import Any, Final

import click
import msgspec

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.rules.encryption import KEY_BYTES, read_key

ROUNDS_MAX: Final = 5  # jobs end and schedules change meanwhile; each round finds fewer


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

    total = connection.run(lambda client: rotate_all(client, quiet=as_json))
    if as_json:
        show_json(total)
    elif not total["unreadable"]:
        show_message(f"{total['changed']} re-encrypted; all data uses key {total['key']}")
    if total["unreadable"]:
        raise click.ClickException(
            f"{total['unreadable']} of {total['scanned']} are under a key that is not in"
            " `secrets.keys`, or are being changed by others; keep the former keys"
        )


async def rotate_all(client: Client, *, quiet: bool) -> dict[str, Any]:
    """The sums over all batches, in rounds until one changes nothing."""
    rounds = [await one_round(client, quiet=quiet)]
    while rounds[-1]["changed"] and len(rounds) < ROUNDS_MAX:
        rounds.append(await one_round(client, quiet=quiet))
    return {**rounds[-1], "changed": sum(round["changed"] for round in rounds)}


async def one_round(client: Client, *, quiet: bool) -> dict[str, Any]:
    total = {"scanned": 0, "changed": 0, "unreadable": 0}
    cursor: str | None = None
    while True:
        answer = await client.call("secrets.rotate", {}, {"cursor": cursor})
        for name in total:
            total[name] += answer[name]
        if not quiet:
            click.echo(f"\r{total['scanned']} looked at", nl=False, err=True)
        cursor = answer["cursor"]
        if cursor is None:
            if not quiet:
                click.echo(err=True)
            return {"key": answer["key"], **total}
