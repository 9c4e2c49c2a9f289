"""`onbeat logs`: what the handler of a job logged."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from typing import Any, Final

import click
import msgspec

from onbeat.cli.client import (
    Client,
    ConnectionOptions,
    explain_bad_id,
    json_option,
    with_client,
)
from onbeat.cli.examples import examples
from onbeat.cli.output import show_json
from onbeat.cli.times import from_wire, local_now
from onbeat.model.errors import Malformed, NotFound
from onbeat.model.job import FINAL_STATES
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.telemetry.redaction import escape_controls

POLL_SECONDS: Final = 1.0
pause: Final = asyncio.sleep
LATE: Final = timedelta(seconds=5)
"""How long after the end of a job its last lines may come."""

Line = Mapping[str, Any]


@click.command(
    "logs",
    epilog=examples(
        "onbeat logs 0199a3f2-…",
        "onbeat logs 0199a3f2-… --follow",
        "onbeat logs 0199a3f2-… --attempt 2 --json",
    ),
)
@click.argument("id", metavar="JOB")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only of this attempt.")
@click.option("--follow", is_flag=True, help="Go on until the job has ended.")
@json_option
@with_client
def logs(
    connection: ConnectionOptions, *, id: str, attempt: int | None, follow: bool, as_json: bool
) -> None:
    """Show what the handler of a job logged, in the order of the lines.

    With --follow and --json each line is a document of its own.
    """
    named = {"id": id, "attempt": attempt}
    try:
        if follow:
            connection.run(lambda client: show_until_end(client, named, as_json=as_json))
            return
        lines = connection.run(lambda client: read_all(client, named))
    except NotFound as error:
        raise NotFound(f"{error}: {id}") from error
    except Malformed as error:
        raise explain_bad_id(error, id, "job.log") from error
    if as_json:
        show_json({"lines": lines})
        return
    show_lines(lines)
    if not lines:
        click.echo("no lines are kept")


async def read_all(client: Client, named: Mapping[str, object]) -> list[Line]:
    return [line async for page in pages(client, named, 0) for line in page]


async def pages(
    client: Client, named: Mapping[str, object], after: int | None
) -> AsyncGenerator[list[Line]]:
    """The lines after that number."""
    while after is not None:
        page = {**named, "after": after, "limit": PAGE_LIMIT_MAX}
        answer = await client.call("job.log", page)
        yield answer["lines"]
        after = answer["after"]


async def show_until_end(client: Client, named: Mapping[str, object], *, as_json: bool) -> None:
    """The lines as they come, until the job has ended and none is left."""
    after, was_over = 0, False
    while True:
        job = await client.call("job.show", {"id": named["id"]})
        count = 0
        async for lines in pages(client, named, after):
            show_each(lines) if as_json else show_lines(lines)
            after, count = (lines[-1]["number"] if lines else after), count + len(lines)
        if is_over(job) and not count and (was_over or is_long_over(job)):
            return
        was_over = is_over(job)
        await pause(POLL_SECONDS)


def is_over(job: Mapping[str, Any]) -> bool:
    return job["state"] in FINAL_STATES


def is_long_over(job: Mapping[str, Any]) -> bool:
    return local_now() - from_wire(job["finished_at"]) > LATE


def show_each(lines: list[Line]) -> None:
    for line in lines:
        click.echo(msgspec.json.encode(line))


def show_lines(lines: list[Line]) -> None:
    for line in lines:
        at = from_wire(line["at"]).astimezone()
        head = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} {line['level']:<8}"
        click.echo(f"{head} {line['attempt']} {text_of(line)}")


def text_of(line: Line) -> str:
    """The text with its fields; further lines are indented, so that none looks like another."""
    text = escape_controls(line["text"], keep_newlines=True)
    first, *rest = text.split("\n")
    fields = (f"{name}={value_of(value)}" for name, value in line["fields"].items())
    shown = " ".join([f"{line['logger']}: {first}", *fields])
    return escape_controls(shown) + "".join(f"\n    {one}" for one in rest)


def value_of(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
