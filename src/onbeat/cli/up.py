"""`onbeat up`: the service."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from onbeat.app import event_loop
from onbeat.app.client import Onbeat
from onbeat.cli.app_loader import derived_owner, load_app
from onbeat.cli.client import config_option
from onbeat.cli.includes import import_included
from onbeat.cli.reload import Reloader, watched_folders
from onbeat.model.owner import Owner
from onbeat.settings import Settings, load
from onbeat.settings.load import export_dotenv
from onbeat.settings.setting import Setting
from onbeat.settings.table import TABLE
from onbeat.telemetry.log import configure_logging

EPILOG: Final = """\b
Examples:
  onbeat up                             everything, on sqlite:///onbeat.db
  onbeat up app.py                      with the tasks of app.py
  onbeat up app.py --reload             again at each change of a source
  onbeat up shop.tasks:beat --port 9000
  onbeat up shop:beat --include 'shop.*'
  onbeat up app.py --processes 4 --concurrency 200
  onbeat up --roles api,planner --store sqlite:////var/lib/onbeat.db
  ONBEAT_API__KEYS=$KEY onbeat up --host 0.0.0.0

\b
Settings also come from onbeat.yaml, .env and ONBEAT_* variables. Other
variables in .env are set for the program. ONBEAT_DOTENV=off ignores the file,
and ONBEAT_DOTENV=PATH names another.
SIGTERM drains: running jobs get --drain-timeout; a second one stops at once."""

LEVEL: Final = "log.level"
LEVELS: Final = "log.levels"


def parameter_of(path: str) -> str:
    return path.replace(".", "_")


def setting_option(setting: Setting) -> Callable[..., Any]:
    """The flag of a setting; its value is validated with all settings."""
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
        if setting.path == LEVELS:
            continue  # its flag is that of the level of all
        if setting.path == LEVEL:
            command = level_option(command)
        elif setting.flag:
            command = setting_option(setting)(command)
    return command


def level_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flag of two settings: the level of all loggers, and of single ones."""
    default = TABLE[LEVEL].default_text
    text = f"Least level that is logged; NAME=LEVEL is of one logger. Repeat.  [default: {default}]"
    flag = click.option("--log-level", "log_level", multiple=True, metavar="LEVEL", help=text)
    return flag(command)


def split_levels(given: Sequence[str]) -> dict[str, str | None]:
    """The values of the two settings: `NAME=LEVEL` is of one logger."""
    of_all = [text for text in given if "=" not in text]
    of_loggers = [text for text in given if "=" in text]
    return {LEVEL: of_all[-1] if of_all else None, LEVELS: " ".join(of_loggers) or None}


def settings_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """What the flags say of each setting; None for nothing."""
    given = {path: flags.get(parameter_of(path)) for path in TABLE}
    return given | split_levels(flags["log_level"])


@click.command("up", epilog=EPILOG)
@click.argument("place", metavar="[FILE.py | MODULE:NAME]", required=False)
@config_option
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Import these modules too, such as 'shop.*.tasks'. Repeat for several.",
)
@click.option("--reload", is_flag=True, help="Start again when a Python file changes.")
@setting_options
def up(
    place: str | None,
    config: Path | None,
    include: tuple[str, ...],
    *,
    reload: bool,
    **flags: Any,
) -> int:
    """Run the service: all roles, or those named with --roles.

    Uses the Onbeat in FILE.py or MODULE; without one it is a plain service.
    """
    if place and flags["app"]:
        raise click.UsageError("give the program once: as an argument or as --app")
    flags["app"] = place or flags["app"]
    if reload:
        return Reloader(sys.argv[1:], watched_folders(flags["app"])).run()
    settings = load(settings_of(flags), config=config)
    export_dotenv(os.environ)
    configure_logging(settings.log, secrets=settings.secret_values)
    return run(settings, include)


def run(settings: Settings, include: Sequence[str] = ()) -> int:
    # Imported here: help and invalid settings do not need the server.
    from onbeat.cli.banner import announce_for  # noqa: PLC0415
    from onbeat.service import serve  # noqa: PLC0415

    beat = load_owned_app(settings.app) if settings.app else None
    import_included(include)
    served = serve(settings, beat, sys.argv[1:], announce_for(settings))
    return event_loop.run(served, loop_factory())


def load_owned_app(place: str) -> Onbeat:
    """The program, which owns its schedules by its place if it has not named an owner."""
    beat = load_app(place)
    owner = beat.backend.owner
    if owner.name is None:
        beat.backend.owner = Owner(derived_owner(place), owner.release, is_named=False)
    return beat


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    with contextlib.suppress(ImportError):
        made: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
        return made
    return None
