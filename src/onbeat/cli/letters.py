"""`onbeat dead`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from onbeat.cli.bodies import field
from onbeat.cli.connection import Caller, Connection, connects, json_option
from onbeat.cli.endings import FAILED, OK
from onbeat.cli.examples import examples
from onbeat.cli.output import (
    done,
    heading,
    json_text,
    plain,
    progress,
    show_json,
    show_record,
    show_table,
)
from onbeat.cli.times import in_full, in_short, present
from onbeat.model.errors import Conflict, NotFound

PAGE: Final = 1_000
SUMMARY_CHARS: Final = 60

source_option = field("--source", metavar="NAME", help="Only of this source: rpc, onbeat.submit.")


@click.group()
def dead() -> None:
    """Dead letters: messages that were put aside, with the reason."""


@dead.command(
    "list",
    epilog=examples("onbeat dead list", "onbeat dead list --source onbeat.results --json"),
)
@source_option
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many."
)
@field("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
@json_option
@connects
def list_letters(connection: Connection, *, as_json: bool, **values: Any) -> None:
    """List dead letters, newest first."""
    answer = connection.ask("dead.list", values)
    if as_json:
        show_json(answer)
        return
    now = present()
    rows = [
        (
            plain(letter["id"]),
            plain(in_short(letter["at"], now)),
            plain(letter["source"]),
            plain(letter["reason"][:SUMMARY_CHARS]),
        )
        for letter in answer["letters"]
    ]
    show_table(("ID", "TIME", "SOURCE", "REASON"), rows, empty="no dead letters")
    if answer["cursor"]:
        done(f"see more with --cursor {answer['cursor']}")


@dead.command("show")
@click.argument("id")
@json_option
@connects
def show(connection: Connection, *, id: str, as_json: bool) -> None:
    """Show a dead letter with its body."""
    letter = connection.ask("dead.show", {"id": id})
    if as_json:
        show_json(letter)
        return
    show_record(letter_fields(letter))
    heading("Body" if letter["encoding"] == "text" else "Body in base64")
    done(letter["body"])


def letter_fields(letter: Mapping[str, Any]) -> dict[str, str]:
    fields = {
        "id": plain(letter["id"]),
        "put aside": plain(in_full(letter["at"], present())),
        "source": plain(letter["source"]),
        "reason": plain(letter["reason"]),
        "bytes": plain(letter["bytes"]),
    }
    return fields | ({"headers": json_text(letter["headers"])} if letter["headers"] else {})


@dead.command(
    "replay",
    epilog=examples("onbeat dead replay ID", "onbeat dead replay --all --source onbeat.submit"),
)
@click.argument("id", required=False)
@click.option("--all", "every", is_flag=True, help="Every letter, or every one of a source.")
@source_option
@json_option
@connects
def replay(
    connection: Connection, *, id: str | None, every: bool, source: str | None, as_json: bool
) -> int:
    """Try a dead letter again. It goes when it went through; else exit 1."""
    if every is (id is not None):
        raise click.UsageError("name one letter by its ID, or give --all")
    if id is not None:
        if source is not None:
            raise click.UsageError("--source goes with --all")
        return show_one(connection.ask("dead.replay", {"id": id}), as_json=as_json)
    answers = connection.run(lambda caller: replayed_all(caller, source))
    return show_many(answers, as_json=as_json)


def show_one(answer: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        show_json(answer)
    elif answer["replayed"]:
        done("replayed" + (f", job {answer['job_id']}" if answer.get("job_id") else ""))
    else:
        done(f"kept as {answer['id']}: {answer['reason']}")
    return OK if answer["replayed"] else FAILED


async def replayed_all(caller: Caller, source: str | None) -> list[Mapping[str, Any]]:
    """The oldest first, as they came in. What can be sent again only by its sender stays."""
    ids = await all_ids(caller, source)
    answers: list[Mapping[str, Any]] = []
    with progress("letters", len(ids)) as advance:
        for id in reversed(ids):
            answers.append(await replayed(caller, id))
            advance(1)
    return answers


async def all_ids(caller: Caller, source: str | None) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        named = {"source": source, "limit": PAGE, "cursor": cursor}
        page = await caller.call("dead.list", named)
        ids += [letter["id"] for letter in page["letters"]]
        cursor = page["cursor"]
        if cursor is None:
            return ids


async def replayed(caller: Caller, id: str) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = await caller.call("dead.replay", {"id": id})
    except (Conflict, NotFound) as error:
        return {"replayed": False, "id": id, "reason": str(error)}
    return answer


def show_many(answers: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    kept = [answer for answer in answers if not answer["replayed"]]
    if as_json:
        show_json({"letters": answers})
    else:
        done(f"{len(answers) - len(kept)} replayed" + (f", {len(kept)} kept" if kept else ""))
        for answer in kept:
            done(f"{answer['id']}: {answer['reason'][:200]}")
    return FAILED if kept else OK


@dead.command("delete")
@click.argument("id")
@json_option
@connects
def delete(connection: Connection, *, id: str, as_json: bool) -> None:
    """Delete a dead letter."""
    answer = connection.ask("dead.delete", {"id": id})
    show_json(answer) if as_json else done("deleted")
