"""`onbeat import`: schedules of other systems as a schedule file, and what will differ."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from onbeat.cli.client import json_option
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED
from onbeat.cli.imports import (
    ImportDifference,
    ImportOptions,
    ImportResult,
    UnreadableSource,
    read,
)
from onbeat.cli.imports.checks import FirePair, fires_of
from onbeat.cli.imports.eventbridge import DEFAULT_TASK
from onbeat.cli.imports.zone_names import is_zone
from onbeat.cli.output import formatted_json, plain, table_text
from onbeat.cli.times import local_now, read_instant, utc_text
from onbeat.cli.yaml_files import STANDARD_INPUT, BadFile, read_text, yaml_text
from onbeat.model.limits import FILE_BYTES_MAX, IMPORT_BYTES_MAX, IMPORT_FIRES_MAX

Command = TypeVar("Command", bound=Callable[..., Any])
NO_TIMES: Final = "no fixed time"
NO_MORE: Final = "-"


class Report(NamedTuple):
    """How an import is shown: where its file goes, and how many fires."""

    output: str | None
    force: bool
    name: str | None
    fires: int
    after: datetime
    as_json: bool
    strict: bool


@click.group("import")
def import_group() -> None:
    """Read schedules of another system, and write them as a schedule file.

    Nothing of the source is run, and no store is needed: `onbeat schedule diff` and `apply` take
    the file. What differs, and the next fires side by side, are shown on standard error.
    """


def shared_options(command: Command) -> Command:
    """The options that every source has."""
    chosen = (
        click.argument("file", metavar="FILE"),
        click.option("-o", "--output", metavar="FILE", help="Write the schedules to this file."),
        click.option("--force", is_flag=True, help="Overwrite the file of --output."),
        click.option("--name", metavar="NAME", help="Name of the schedule file, for --prune."),
        click.option("--tz", "--timezone", "tz", metavar="ZONE",
                     help="IANA zone of times for which the source names none."),
        click.option("--fires", type=click.IntRange(0, IMPORT_FIRES_MAX), default=3,
                     show_default=True, help="How many fires of each to compare."),
        click.option("--after", metavar="INSTANT", help="Fires after this.  [default: now]"),
        click.option("--strict", is_flag=True,
                     help="End with 1 if something could not be carried over."),
        json_option,
    )  # fmt: skip
    for one in reversed(chosen):
        command = one(command)
    return command


task_option = click.option(
    "--task", metavar="NAME",
    help="Call this task with each command, in place of running it.",
)  # fmt: skip


@import_group.command("crontab", epilog=examples("onbeat import crontab /etc/crontab --system"))
@shared_options
@task_option
@click.option("--system", is_flag=True, help="Lines have a user, as in /etc/crontab.")
def import_crontab(*, task: str | None, system: bool, **shared: Any) -> None:
    """A crontab: lines of times and commands, with variables.

    `-` is standard input, as in `crontab -l | onbeat import crontab -`.
    """
    run("crontab", shared, task=task, system=system)


@import_group.command("celery", epilog=examples("onbeat import celery shop/celeryconfig.py"))
@shared_options
def import_celery(**shared: Any) -> None:
    """The beat_schedule of a Python file, which is not run.

    JSON of `manage.py dumpdata django_celery_beat` is read, too.
    """
    run("celery", shared)


@import_group.command("apscheduler", epilog=examples("onbeat import apscheduler jobs.py"))
@shared_options
def import_apscheduler(**shared: Any) -> None:
    """The add_job and scheduled_job calls of a Python file, which is not run."""
    run("apscheduler", shared)


@import_group.command(
    "rrule-scheduler", epilog=examples("onbeat import rrule-scheduler schedules.json")
)
@shared_options
def import_rrule_scheduler(**shared: Any) -> None:
    """JSON of the RRULE event scheduler: RRULEs and HTTP callbacks, as a list or lines."""
    run("rrule-scheduler", shared)


@import_group.command("kubernetes", epilog=examples("onbeat import kubernetes cronjobs.yaml"))
@shared_options
@task_option
def import_kubernetes(*, task: str | None, **shared: Any) -> None:
    """CronJobs in YAML, as of `kubectl get cronjobs -o yaml`."""
    run("kubernetes", shared, task=task)


@import_group.command("eventbridge", epilog=examples("onbeat import eventbridge schedules.json"))
@shared_options
@click.option("--task", metavar="NAME", default=DEFAULT_TASK, show_default=True,
              help="The task that every schedule calls.")  # fmt: skip
def import_eventbridge(*, task: str, **shared: Any) -> None:
    """JSON of `aws scheduler get-schedule`, or of `aws events list-rules`."""
    run("eventbridge", shared, task=task)


def run(
    source: str, shared: dict[str, Any], *, task: str | None = None, system: bool = False
) -> None:
    zone: str | None = shared["tz"]
    if zone is not None and not is_zone(zone):
        raise click.UsageError(f"--tz: {zone[:60]!r} is no zone that is known here")
    after: str | None = shared["after"]
    report = Report(
        output=shared["output"],
        force=shared["force"],
        name=shared["name"],
        fires=shared["fires"],
        after=local_now() if after is None else read_instant(after, "--after"),
        as_json=shared["as_json"],
        strict=shared["strict"],
    )
    refuse_overwrite(report)
    options = ImportOptions(task=task, system=system, zone=zone)
    show(read_source(shared["file"], source, options), report)


def read_source(file: str, source: str, options: ImportOptions) -> ImportResult:
    name = "standard input" if file == STANDARD_INPUT else file
    try:
        return read(read_text(file, bytes_max=IMPORT_BYTES_MAX), source, options)
    except UnreadableSource as error:
        place = "" if error.line is None else f", line {error.line}"
        raise BadFile(f"{name}{place}: {error}") from None


def refuse_overwrite(report: Report) -> None:
    if report.output is not None and not report.force and Path(report.output).exists():
        raise BadFile(f"{report.output} is there already; --force overwrites it")


def show(result: ImportResult, report: Report) -> None:
    """Write the file, and say what differs. Exits with 1 as `--strict` wants."""
    schedules = {one.key: one.body for one in result.schedules}
    content = ({} if report.name is None else {"name": report.name}) | {"schedules": schedules}
    pairs = [fires_of(one, report.fires, report.after) for one in result.schedules]
    if report.as_json:
        if report.output is not None:
            write(report.output, yaml_text(content))
        click.echo(formatted_json(document_of(content, result, pairs)))
    else:
        text = yaml_text(content)
        click.echo(text, nl=False) if report.output is None else write(report.output, text)
        show_differences(result.differences)
        show_fires(pairs)
        tell_counts(result)
    if report.strict and any(one.lost for one in result.differences):
        sys.exit(FAILED)


def write(file: str, text: str) -> None:
    data = text.encode("utf-8")
    if len(data) > FILE_BYTES_MAX:
        raise BadFile(f"the schedules have more than {FILE_BYTES_MAX} bytes; import them in parts")
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror}") from None


def document_of(
    content: dict[str, Any], result: ImportResult, pairs: Sequence[FirePair]
) -> dict[str, Any]:
    return {
        **content,
        "differences": result.differences,
        "fires": {
            one.key: {
                "source": None if one.source is None else [utc_text(at) for at in one.source],
                "onbeat": [utc_text(at) for at in one.onbeat],
            }
            for one in pairs
        },
    }


def show_differences(differences: Sequence[ImportDifference]) -> None:
    rows = [
        (
            NO_MORE if one.line is None else str(one.line),
            plain(one.feature if one.key is None else f"{one.feature} ({one.key})"),
            plain(one.source),
            plain(one.onbeat),
            plain(one.remedy),
        )
        for one in differences
    ]
    columns = ("LINE", "FEATURE", "THE SOURCE", "ONBEAT", "REMEDY")
    tell(table_text(columns, rows, whole=("LINE",), stderr=True))


def show_fires(pairs: Sequence[FirePair]) -> None:
    rows = [row for pair in pairs for row in rows_of(pair)]
    columns = ("SCHEDULE", "THE SOURCE FIRES", "ONBEAT FIRES", "")
    tell(table_text(columns, rows, whole=columns[1:], stderr=True))


def rows_of(pair: FirePair) -> list[tuple[str, str, str, str]]:
    """A row for each fire; `!` marks those that are not the same."""
    length = max(len(pair.source or ()), len(pair.onbeat))
    rows: list[tuple[str, str, str, str]] = []
    for place in range(length):
        source = NO_TIMES if pair.source is None else text_at(pair.source, place)
        ours = text_at(pair.onbeat, place)
        rows.append(
            (plain(pair.key) if place == 0 else "", source, ours, "" if source == ours else "!")
        )
    return rows


def text_at(instants: Sequence[datetime], place: int) -> str:
    return f"{instants[place]:%a %Y-%m-%d %H:%M:%S}Z" if place < len(instants) else NO_MORE


def tell_counts(result: ImportResult) -> None:
    lost = sum(one.lost for one in result.differences)
    others = len(result.differences) - lost
    tell(f"{len(result.schedules)} schedules, {others} differ, {lost} could not be carried over")


def tell(text: str) -> None:
    if text:
        click.echo(text, err=True)
