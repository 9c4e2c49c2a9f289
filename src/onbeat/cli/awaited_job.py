"""A job that a command adds and waits for."""

import asyncio
from datetime import timedelta
from typing import Any

import click
import msgspec

from onbeat.cli.client import Client, ConnectionOptions
from onbeat.cli.exit_codes import FAILED, NOT_IN_TIME, OK, error_line
from onbeat.cli.output import show_json, warn_of_unknown_tasks
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.job import JobState
from onbeat.rules.why import summary
from onbeat.wire.values import read_span

NO_LIMIT = "for as long as it takes"


class AwaitedJob(msgspec.Struct, frozen=True):
    """A job as `job.show` answers it; `in_time`: it ended within the span."""

    info: dict[str, Any]
    in_time: bool


def read_patience(text: str) -> timedelta | None:
    """How long to wait; None without a limit. Raises `UsageError`."""
    if text == NO_LIMIT:
        return None
    try:
        return read_span(text, "--wait")
    except Invalid as error:
        raise click.UsageError(str(error)) from None


def add_and_wait(
    connection: ConnectionOptions, body: object, patience: timedelta | None, *, as_json: bool
) -> int:
    """Add the job, wait for its end and show its result; returns the exit code."""
    job = connection.run(lambda client: enqueue_and_wait(client, body, patience))
    if as_json:
        show_json(job.info)
    return show_end(job, silent=as_json)


async def enqueue_and_wait(client: Client, body: object, patience: timedelta | None) -> AwaitedJob:
    """Waits for the job that has the unique key already, where there is one."""
    answer = await client.call("job.enqueue", {}, body)
    warn_of_unknown_tasks(answer)
    id = answer["id"]
    try:
        async with asyncio.timeout(None if patience is None else patience.total_seconds()):
            return AwaitedJob(await client.wait_for_end(id), in_time=True)
    except TimeoutError:
        return AwaitedJob(await client.call("job.show", {"id": id}), in_time=False)
    except Unavailable as error:
        raise Unavailable(
            f"{error}; job {id} was added, `onbeat job show` tells its end"
        ) from error


def show_end(job: AwaitedJob, *, silent: bool) -> int:
    """Print the result, or on standard error why there is none."""
    info = job.info
    if not job.in_time:
        tell(f"job {info['id']} is {info['state']} and goes on", silent=False)
        return NOT_IN_TIME
    if info["state"] == JobState.SUCCEEDED:
        if not silent:
            show_json(info["result"])
        return OK
    reasons = (info["reason"], summary(info["error"]))
    cause = ": ".join(str(text) for text in reasons if text)
    tell(f"job {info['id']} {info['state']}: {cause or 'no reason given'}", silent=silent)
    return FAILED


def tell(message: str, *, silent: bool) -> None:
    if not silent:
        click.echo(error_line(" ".join(message.split())), err=True)
