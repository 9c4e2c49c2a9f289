"""`onbeat schedule export`, `apply`, and `diff` of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from onbeat.cli.client import Client, ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.output import (
    formatted_json,
    json_text,
    plain,
    progress,
    show_json,
    show_message,
    show_table,
    warn_of_unknown_tasks,
)
from onbeat.cli.schedules import schedule
from onbeat.cli.yaml_files import BadFile, read_yaml, yaml_text
from onbeat.model.credentials import HIDDEN
from onbeat.model.errors import Invalid
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.wire.recurrences import FORMS
from onbeat.wire.schedule_files import (
    ScheduleFile,
    file_of,
    read_schedule_file,
    written_schedule,
)

Record = Mapping[str, Any]
ENDINGS: Final = (".yaml", ".yml", ".json")
STYLES: Final = {"new": "green", "changed": "yellow", "deleted": "red", "unchanged": "dim"}

file_argument = click.argument("file", metavar="FILE")
prune_option = click.option(
    "--prune", is_flag=True, help="Delete schedules that came from this file and left it."
)


def is_file(which: str) -> bool:
    """Whether an argument is a file of schedules rather than an id or a key."""
    return which == "-" or which.endswith(ENDINGS)


# export


@schedule.command("export", epilog=examples("onbeat schedule export schedules.yaml --name billing"))
@click.argument("file", metavar="[FILE]", default="-")
@click.option("--name", metavar="NAME", help="Only those that came from the file of this name.")
@click.option("--all", "with_declared", is_flag=True, help="Also those that programs declare.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, which is YAML, too.")
@with_client
def export(
    connection: ConnectionOptions,
    *,
    file: str,
    name: str | None,
    with_declared: bool,
    as_json: bool,
) -> None:
    """Write schedules with a key to a file that `schedule apply` reads; `-` is standard output.

    Those that programs declare, that have finished, are sensitive, have no key or a rule without a
    text are left out, and counted on standard error.
    """
    answers = connection.run(all_schedules)
    wanted = [one for one in answers if name is None or file_of(one) == name]
    left_out = {one["id"]: why_not(one, with_declared=with_declared) for one in wanted}
    chosen = sorted(
        (one for one in wanted if left_out[one["id"]] is None), key=lambda one: one["key"]
    )
    schedules = {one["key"]: written_schedule(one, name) for one in chosen}
    content = ({} if name is None else {"name": name}) | {"schedules": schedules}
    write(file, formatted_json(content) if as_json else yaml_text(content))
    tell_left_out([why for why in left_out.values() if why is not None])
    if secret := [key for key, body in schedules.items() if HIDDEN in str(body)]:
        click.echo(
            f"{HIDDEN} stands for secrets, which stay in this store: {keys(secret)}", err=True
        )


def why_not(answer: Record, *, with_declared: bool) -> str | None:
    """Why a schedule is left out of a file, if it is."""
    if "key" not in answer:
        return "without a key: give it one by `onbeat schedule update ID --key KEY`"
    if answer.get("sensitive"):
        return "sensitive, whose payload is never shown"
    if answer["status"] == "finished":
        return "finished"
    if not any(form in answer for form in (*FORMS, "on")):
        return "with a rule that only a program can make"
    if "owner" in answer and not with_declared:
        return "declared by programs: --all takes them along"
    return None


def tell_left_out(reasons: list[str]) -> None:
    for reason in sorted(set(reasons)):
        click.echo(f"left out: {reasons.count(reason)} {reason}", err=True)


def write(file: str, text: str) -> None:
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror}") from None


async def all_schedules(client: Client) -> list[Record]:
    """All schedules, page by page."""
    found: dict[str, Record] = {}
    page = 1
    while True:
        answer = await client.call("schedule.list", {"limit": PAGE_LIMIT_MAX, "page": page})
        found |= {one["id"]: one for one in answer["schedules"]}
        if len(answer["schedules"]) < PAGE_LIMIT_MAX:
            return list(found.values())
        page += 1


# diff and apply


@schedule.command(
    "apply",
    epilog=examples(
        "onbeat schedule apply schedules.yaml --prune --dry-run",
        "onbeat schedule apply s.yaml --server https://jobs.example.com",
    ),
)
@file_argument
@prune_option
@click.option("--dry-run", is_flag=True, help="Show what it would do, and do nothing.")
@json_option
@with_client
def apply(
    connection: ConnectionOptions, *, file: str, prune: bool, dry_run: bool, as_json: bool
) -> None:
    """Make the schedules as FILE says: add, change, and with --prune delete. Repeating is harmless.

    Everything is checked before anything changes. `-` is standard input.
    """
    wanted = read(file)
    steps = connection.run(lambda client: plan(client, wanted, prune=prune))
    if not dry_run:
        warn_of_unknown_tasks(*connection.run(lambda client: carry_out(client, wanted, steps)))
    show_steps(steps, as_json=as_json)


def show_file_diff(connection: ConnectionOptions, file: str, *, prune: bool, as_json: bool) -> None:
    wanted = read(file)
    steps = connection.run(lambda client: plan(client, wanted, prune=prune))
    show_steps(steps, as_json=as_json)


def read(file: str) -> ScheduleFile:
    try:
        return read_schedule_file(read_yaml(file))
    except Invalid as error:
        raise BadFile(f"{file}: {error.field}: {error}") from None


async def plan(client: Client, file: ScheduleFile, *, prune: bool) -> list[Record]:
    """What there is to do, a record for each key. Raises `BadFile` with all that is wrong."""
    if prune and file.name is None:
        raise BadFile("--prune needs a `name:` in the file, which marks what came from it")
    steps: list[Record] = []
    wrong: list[str] = []
    with progress("schedules", len(file.schedules)) as advance:
        for key, body in bodies(file).items():
            try:
                steps.append(await step(client, key, body))
            except Invalid as error:
                place = f"{key}.{error.field}" if error.field else key
                wrong.append(f"{place}: {error.detail or error}")
            advance(1)
    if wrong:
        raise BadFile("nothing was changed:\n" + "\n".join(wrong))
    return steps + ([] if not prune else await gone(client, file))


def bodies(file: ScheduleFile) -> dict[str, dict[str, Any]]:
    try:
        return file.bodies()
    except Invalid as error:
        raise BadFile(f"{error.field}: {error}") from None


async def step(client: Client, key: str, body: Record) -> Record:
    diff = await client.call("schedule.put_diff", {"key": key}, body)
    is_new = diff.get("created", False)
    kind = "new" if is_new else "changed" if diff["changes"] else "unchanged"
    return {"key": key, "change": kind, **diff}


async def gone(client: Client, file: ScheduleFile) -> list[Record]:
    """The schedules that came from the file, and that it no longer has."""
    return [
        {"key": one.get("key", one["name"]), "change": "deleted", "id": one["id"], "changes": []}
        for one in await all_schedules(client)
        if file_of(one) == file.name and one.get("key") not in file.schedules
    ]


async def carry_out(client: Client, file: ScheduleFile, steps: list[Record]) -> list[Record]:
    """Returns the answers about schedules that were added or changed."""
    wanted = file.bodies()
    answers: list[Record] = []
    todo = [one for one in steps if one["change"] != "unchanged"]
    with progress("changes", len(todo)) as advance:
        for one in todo:
            if one["change"] == "deleted":
                await client.call("schedule.delete", {"id": one["id"]})
            else:
                key = one["key"]
                answers.append(await client.call("schedule.put", {"key": key}, wanted[key]))
            advance(1)
    return answers


def show_steps(steps: list[Record], *, as_json: bool) -> None:
    if as_json:
        show_json({"schedules": steps})
        return
    rows = [
        (plain(one["key"]), f"[{STYLES[one['change']]}]{one['change']}[/]", what_changes(one))
        for one in steps
        if one["change"] != "unchanged"
    ]
    if rows:
        show_table(("KEY", "CHANGE", "WHAT"), rows, empty="", whole=("CHANGE",))
    counts = {kind: sum(one["change"] == kind for one in steps) for kind in STYLES}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    show_message(", ".join(parts) or "the file has no schedules")


def what_changes(one: Record) -> str:
    if one["change"] == "new":
        return plain(one["description"])
    return "\n".join(
        f"{plain(field['field'])}: {shown(field['before'])} → {shown(field['after'])}"
        for field in one["changes"]
    )


def shown(value: Any) -> str:
    if value is None:
        return "-"
    return plain(value) if isinstance(value, str) else json_text(value)


def keys(names: list[str]) -> str:
    """At most ten of them."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
