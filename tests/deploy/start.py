"""What the command line and the settings make of a container's command and environment."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from onbeat.app.probe import probe_app
from onbeat.cli import up
from onbeat.cli.main import root
from onbeat.service import check_roles
from onbeat.settings import Settings, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def parsed(arguments: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
    """The command and its parameters. Raises `click.UsageError` as `onbeat` does."""
    name, *rest = arguments
    command = root.get_command(click.Context(root), name)
    if command is None:
        raise click.UsageError(f"there is no command {name}")
    return name, command.make_context(name, rest).params


def settings_of(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Settings:
    """The settings with which the container starts. Raises `Misconfigured` as its start does."""
    name, params = parsed(arguments)
    # As the command line reads the settings for other commands, which open no port.
    given: dict[str, Any] = {"roles": "maintenance"}
    if name == "up":
        given = up.settings_of(params)
    settings = load(given, environment=environment, folder=folder)
    if name == "up":
        check_roles(settings)
    return settings


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile, with their continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = (line.partition(" ") for line in joined.splitlines() if line)
    return [(name, rest.strip()) for name, _, rest in pairs]


def image_environment() -> dict[str, str]:
    """The settings among the variables of the image."""
    (text,) = (rest for name, rest in instructions() if name == "ENV")
    variables = dict(word.split("=", 1) for word in shlex.split(text))
    return {name: value for name, value in variables.items() if name.startswith("ONBEAT_")}


def probe_paths() -> set[str]:
    """What every process answers on `metrics.port`."""
    routes: Any = probe_app(None, is_local=True).routes  # only the paths are read
    return {route.path for route in routes}
