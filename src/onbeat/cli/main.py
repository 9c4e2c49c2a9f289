"""`onbeat`: the commands by name."""

from typing import Final

import click

from onbeat.cli.root import DEBUG, Lazy, LazyGroup, Root

EPILOG: Final = """\b
Examples:
  onbeat up app.py
  onbeat schedule add nightly --cron "0 3 * * *" --tz Europe/Berlin --task reports.build
  onbeat job add --task mail.welcome --args '[7]' --delay 10m
  onbeat job list --state failed
  onbeat next "FREQ=MONTHLY;BYDAY=-1FR" --tz America/New_York

\b
Exit codes: 0 ok, 1 the request failed, 2 bad usage or configuration,
3 store or server unreachable."""


def version_text() -> str:
    # Imported here: reading the installed packages takes longer than all the rest of a command.
    from importlib.metadata import version as version_of  # noqa: PLC0415

    return f"onbeat {version_of('onbeat')}"


def print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    """Called by click where `--version` stands."""
    if wanted:
        click.echo(version_text())
        ctx.exit()


@click.group(
    cls=Root,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    lazy={
        "up": Lazy("onbeat.cli.up:up", "Run the service: API, planner, workers."),
        "schedule": Lazy("onbeat.cli.schedules:schedule", "Schedules: add, list, show, change."),
        "job": Lazy("onbeat.cli.jobs:job", "Jobs: add, list, show, cancel, retry, why."),
        "queue": Lazy("onbeat.cli.places:queue", "Queues: list, pause, resume, limit."),
        "worker": Lazy("onbeat.cli.places:worker", "Workers: list."),
        "dead": Lazy("onbeat.cli.letters:dead", "Dead letters: list, show, replay, delete."),
        "stats": Lazy("onbeat.cli.places:stats", "Counts of jobs and schedules by state."),
        "next": Lazy("onbeat.cli.rules:show_next", "When a rule fires next."),
        "explain": Lazy("onbeat.cli.rules:explain", "What a rule says, in words."),
        "forecast": Lazy("onbeat.cli.forecast:forecast", "How busy the coming hours will be."),
        "migrate": Lazy("onbeat.cli.care:migrate", "Bring a store's schema up to date."),
        "copy": Lazy("onbeat.cli.copying:copy", "Copy everything into another store."),
        "doctor": Lazy("onbeat.cli.care:doctor", "Look for what is wrong."),
        "openapi": Lazy("onbeat.cli.care:openapi", "Print the API's OpenAPI document."),
        "version": Lazy("onbeat.cli.main:version", "Print the version."),
    },
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print the version.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def root(ctx: click.Context, *, debug: bool) -> None:
    """Onbeat runs work on time, once it is due, and remembers."""
    ctx.ensure_object(dict)[DEBUG] = debug


@click.command("version")
def version() -> None:
    """Print the version."""
    click.echo(version_text())


def main() -> None:
    root.main()


__all__ = ["LazyGroup", "main", "root", "version"]
