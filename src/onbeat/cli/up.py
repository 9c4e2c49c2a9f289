"""`onbeat up`: the service."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from onbeat.cli.connection import config_option
from onbeat.cli.loading import load_app
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.settings import Settings, load
from onbeat.settings.keys import Setting
from onbeat.settings.table import TABLE
from onbeat.telemetry.log import configure_logging

EPILOG: Final = """\b
Examples:
  onbeat up                             everything, on sqlite:///onbeat.db
  onbeat up app.py                      with the tasks of app.py
  onbeat up shop.tasks:beat --port 9000
  onbeat up app.py --processes 4 --concurrency 200
  onbeat up --roles api,planner --store sqlite:////var/lib/onbeat.db
  ONBEAT_API__KEYS=$KEY onbeat up --host 0.0.0.0

\b
Settings also come from onbeat.yaml, .env and ONBEAT_* variables.
SIGTERM drains: running jobs get --drain-timeout; a second one stops at once."""


def parameter_of(path: str) -> str:
    return path.replace(".", "_")


def setting_option(setting: Setting) -> Callable[..., Any]:
    """The flag of a setting; what it may be is judged where all settings are."""
    flag = setting.flag or ""
    help_text = f"{setting.key.meaning[0].upper()}{setting.key.meaning[1:]}.".replace("`", "")
    shown = f"{help_text}  [default: {'all' if setting.path == 'roles' else setting.default_text}]"
    parameter = parameter_of(setting.path)
    if setting.is_switch:
        return click.option(f"{flag}/--no-{flag[2:]}", parameter, default=None, help=shown)
    metavar = setting.path.rpartition(".")[2].upper().replace("_", "-")
    return click.option(flag, parameter, metavar=metavar, default=None, help=shown)


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for setting in reversed(TABLE.values()):
        if setting.flag:
            command = setting_option(setting)(command)
    return command


@click.command("up", epilog=EPILOG)
@click.argument("place", metavar="[FILE.py | MODULE:NAME]", required=False)
@config_option
@setting_options
def up(place: str | None, config: Path | None, **flags: Any) -> int:
    """Run the service: all roles, or those named with --roles.

    With the Onbeat found in FILE.py or MODULE, or a plain service without one.
    """
    if place and flags["app"]:
        raise click.UsageError("give the program once: as an argument or as --app")
    flags["app"] = place or flags["app"]
    given = {setting.path: flags.get(parameter_of(setting.path)) for setting in TABLE.values()}
    settings = load(given, config=config)
    configure_logging(settings.log, secrets=settings.secrets)
    return run(settings)


def run(settings: Settings) -> int:
    # Imported here: help and wrong settings need nothing of the server.
    from onbeat.serving import serve  # noqa: PLC0415

    beat = load_app(settings.app) if settings.app else None
    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            return runner.run(serve(settings, beat, sys.argv[1:]))
    except Unavailable as error:
        # Who starts a service named its store: that it is not there is a matter of settings.
        raise Misconfigured(str(error), "store") from error


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where there is one."""
    with contextlib.suppress(ImportError):
        made: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
        return made
    return None
