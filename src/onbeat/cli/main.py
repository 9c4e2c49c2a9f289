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


@click.group(
    cls=Root,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    lazy={
        "up": Lazy("onbeat.cli.up:up", "Run the service: API, planner, workers."),
        "schedule": Lazy("onbeat.cli.schedules:schedule", "Schedules: add, list, show, change."),
        "job": Lazy("onbeat.cli.jobs:job", "Jobs: add, list, show, cancel, retry, why."),
        "queue": Lazy("onbeat.cli.places:queue", "Queues: list, pause, resume."),
        "worker": Lazy("onbeat.cli.places:worker", "Workers: list."),
        "stats": Lazy("onbeat.cli.places:stats", "Counts of jobs and schedules by state."),
        "next": Lazy("onbeat.cli.rules:show_next", "When a rule fires next."),
        "explain": Lazy("onbeat.cli.rules:explain", "What a rule says, in words."),
        "migrate": Lazy("onbeat.cli.care:migrate", "Bring a store's schema up to date."),
        "doctor": Lazy("onbeat.cli.care:doctor", "Look for what is wrong."),
        "openapi": Lazy("onbeat.cli.care:openapi", "Print the API's OpenAPI document."),
        "version": Lazy("onbeat.cli.main:version", "Print the version."),
    },
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def root(ctx: click.Context, *, debug: bool) -> None:
    """Onbeat runs work on time, once it is due, and remembers."""
    ctx.ensure_object(dict)[DEBUG] = debug


@click.command("version")
def version() -> None:
    """Print the version."""
    # Imported here: reading the installed packages takes longer than all the rest of this command.
    from importlib.metadata import version as version_of  # noqa: PLC0415

    click.echo(f"onbeat {version_of('onbeat')}")


def main() -> None:
    root.main()


__all__ = ["LazyGroup", "main", "root", "version"]
