"""`onbeat dead-letter`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED, OK
from onbeat.cli.failures import dry_run_option, more_option, replay_limit_option, show_replayed
from onbeat.cli.options import cursor_option, field, limit_option
from onbeat.cli.output import (
    heading,
    json_text,
    plain,
    progress,
    show_json,
    show_message,
    show_record,
    show_table,
    tell_cursor,
)
from onbeat.cli.times import in_full, in_short, local_now
from onbeat.model.errors import Conflict, NotFound

PAGE: Final = 1_000
SUMMARY_CHARS: Final = 60
REASON_CHARS_SHOWN: Final = 200

source_option = field(
    "--source", metavar="NAME", help="Only of this source: rpc, onbeat.submit, onbeat.events."
)


@click.group()
def dead_letter() -> None:
    """Dead letters: messages that could not be processed, with the reason."""


@dead_letter.command(
    "list",
    epilog=examples(
        "onbeat dead-letter list", "onbeat dead-letter list --source onbeat.results --json"
    ),
)
@source_option
@limit_option()
@cursor_option
@json_option
@with_client
def list_dead_letters(connection: ConnectionOptions, *, as_json: bool, **values: Any) -> None:
    """List dead letters, newest first."""
    answer = connection.call("dead.list", values)
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(letter["id"]),
            plain(in_short(letter["at"], now)),
            plain(letter["source"]),
        )
        for letter in answer["letters"]
    ]
    reasons = [letter["reason"][:REASON_CHARS_SHOWN] for letter in answer["letters"]]
    show_table(("ID", "TIME", "SOURCE"), rows, empty="no dead letters", below=reasons)
    tell_cursor(answer)


@dead_letter.command("show")
@click.argument("id")
@json_option
@with_client
def show(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Show a dead letter with its body."""
    letter = connection.call("dead.show", {"id": id})
    if as_json:
        show_json(letter)
        return
    show_record(dead_letter_fields(letter))
    heading("Body" if letter["encoding"] == "text" else "Body in base64")
    show_message(letter["body"])


def dead_letter_fields(letter: Mapping[str, Any]) -> dict[str, str]:
    fields = {
        "id": plain(letter["id"]),
        "stored": plain(in_full(letter["at"], local_now())),
        "source": plain(letter["source"]),
        "reason": plain(letter["reason"]),
        "bytes": plain(letter["bytes"]),
    }
    return fields | ({"headers": json_text(letter["headers"])} if letter["headers"] else {})


@dead_letter.command(
    "replay",
    epilog=examples(
        "onbeat dead-letter replay ID", "onbeat dead-letter replay --all --source onbeat.submit"
    ),
)
@click.argument("id", required=False)
@click.option("--all", "every", is_flag=True, help="Every letter, or every one of a source.")
@source_option
@json_option
@with_client
def replay(
    connection: ConnectionOptions, *, id: str | None, every: bool, source: str | None, as_json: bool
) -> int:
    """Replay a dead letter. It is deleted on success; otherwise exit 1."""
    if every is (id is not None):
        raise click.UsageError("name one letter by its ID, or give --all")
    if id is not None:
        if source is not None:
            raise click.UsageError("--source goes with --all")
        return show_one(connection.call("dead.replay", {"id": id}), as_json=as_json)
    answers = connection.run(lambda client: replay_all(client, source))
    return show_many(answers, as_json=as_json)


def show_one(answer: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        show_json(answer)
    elif answer["replayed"]:
        show_message("replayed" + (f", job {answer['job_id']}" if answer.get("job_id") else ""))
    else:
        show_message(f"kept as {answer['id']}: {answer['reason']}")
    return OK if answer["replayed"] else FAILED


async def replay_all(client: Client, source: str | None) -> list[Mapping[str, Any]]:
    """Replay the oldest first. Dead letters that only their sender can resend stay."""
    ids = await all_ids(client, source)
    answers: list[Mapping[str, Any]] = []
    with progress("letters", len(ids)) as advance:
        for id in reversed(ids):
            answers.append(await replay_one(client, id))
            advance(1)
    return answers


async def all_ids(client: Client, source: str | None) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        named = {"source": source, "limit": PAGE, "cursor": cursor}
        page = await client.call("dead.list", named)
        ids += [letter["id"] for letter in page["letters"]]
        cursor = page["cursor"]
        if cursor is None:
            return ids


async def replay_one(client: Client, id: str) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = await client.call("dead.replay", {"id": id})
    except (Conflict, NotFound) as error:
        return {"replayed": False, "id": id, "reason": str(error)}
    return answer


def show_many(answers: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    kept = [answer for answer in answers if not answer["replayed"]]
    if as_json:
        show_json({"letters": answers})
    else:
        show_message(
            f"{len(answers) - len(kept)} replayed" + (f", {len(kept)} kept" if kept else "")
        )
        for answer in kept:
            show_message(f"{answer['id']}: {answer['reason'][:200]}")
    return FAILED if kept else OK


@dead_letter.command("delete")
@click.argument("id")
@json_option
@with_client
def delete(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Delete a dead letter."""
    answer = connection.call("dead.delete", {"id": id})
    show_json(answer) if as_json else show_message("deleted")


@dead_letter.command("groups", epilog=examples("onbeat dead-letter groups"))
@limit_option()
@json_option
@with_client
def groups(connection: ConnectionOptions, *, limit: int, as_json: bool) -> None:
    """List dead letters by source and reason."""
    answer = connection.call("dead.groups", {"limit": limit})
    if as_json:
        show_json(answer)
        return
    now = local_now()
    rows = [
        (
            plain(group["group"]),
            plain(group["letters"]),
            plain(group["source"]),
            plain(group["reason"][:SUMMARY_CHARS]),
            plain(in_short(group["last_at"], now)),
        )
        for group in answer["groups"]
    ]
    columns = ("GROUP", "LETTERS", "SOURCE", "REASON", "LAST")
    show_table(columns, rows, empty="no dead letters", right=("LETTERS",), whole=("GROUP",))
    if answer["more"]:
        show_message(f"only the newest {answer['looked_at']:,} letters were looked at")


@dead_letter.command(
    "replay-group", epilog=examples("onbeat dead-letter replay-group GROUP --dry-run")
)
@click.argument("group")
@dry_run_option
@replay_limit_option
@more_option
@json_option
@with_client
def replay_group(
    connection: ConnectionOptions, *, group: str, as_json: bool, **values: Any
) -> None:
    """Replay the dead letters of a group, newest first."""
    answer = connection.call("dead.replay_group", {"group": group}, values)
    show_json(answer) if as_json else show_replayed(answer, "replayed")


@dead_letter.command(
    "delete-group", epilog=examples("onbeat dead-letter delete-group GROUP --dry-run")
)
@click.argument("group")
@dry_run_option
@replay_limit_option
@more_option
@json_option
@with_client
def delete_group(
    connection: ConnectionOptions, *, group: str, as_json: bool, **values: Any
) -> None:
    """Delete the dead letters of a group for good."""
    answer = connection.call("dead.delete_group", {"group": group}, values)
    show_json(answer) if as_json else show_replayed(answer, "deleted")
