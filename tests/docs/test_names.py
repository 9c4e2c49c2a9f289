"""Settings, variables, flags, metrics and paths that the pages name are those that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.pages import PAGES, ROOT, blocks, name_of, with_language
from onbeat.api.security import STREAM_PATH
from onbeat.cli.main import root
from onbeat.operations.table import OPERATIONS
from onbeat.rules.reports import ROUTE
from onbeat.settings import load
from onbeat.settings.table import RESERVED, TABLE

GROUPS = {path.partition(".")[0] for path in TABLE if "." in path}
KEY = re.compile(rf"`((?:{'|'.join(sorted(GROUPS))})\.[a-z_]+)`")
VARIABLE = re.compile(r"ONBEAT_[A-Z_]+")
OF_BENCHMARKS = set(VARIABLE.findall((ROOT / "benchmarks" / "servers.py").read_text("utf-8")))
OPERATION_NAMES = {operation.name for operation in OPERATIONS}
LOG_EVENTS = {
    *("worker.resources_exhausted", "log.lines_dropped", "otel.off", "otel.unsent"),
    "watchdog.silent",
}
# Of docker, of systemd-analyze, of the simulation and a benchmark, and of the example of a new option
# in CONTRIBUTING.
FLAGS_OF_OTHERS = {"--build-arg", "--offline", "--tenant"} | {
    "--capabilities",
    "--from-env-file",
    "--keep",
    "--only",
    "--profile",
    "--seed",
    "--set",
    "--shrink",
    "--stack-name",
    "--stop",
    "--template-file",
}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
PYTEST_OPTION = "onbeat_app"  # of the plugin, no metric
METRIC = re.compile(r"`(onbeat_[a-z_]+)")
PATH = re.compile(r"(?:GET|POST|PUT|DELETE) (/api/[\w/{}.-]+)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_settings_that_are_named_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    assert set(KEY.findall(text)) <= set(TABLE) | OPERATION_NAMES | LOG_EVENTS
    variables = {setting.environment for setting in TABLE.values()} | RESERVED
    result = {name for name in VARIABLE.findall(text) if not name.endswith("_")} - OF_BENCHMARKS
    assert result <= variables


@pytest.mark.parametrize("page", with_language(PAGES, "yaml"), ids=name_of)
def test_files_of_settings_can_be_loaded(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "yaml"):
        if block.text.startswith("# schedules.yaml"):
            continue
        (tmp_path / "onbeat.yaml").write_text(block.text)
        load(environment={}, folder=tmp_path)


@pytest.mark.parametrize("page", with_language(PAGES, "json"), ids=name_of)
def test_json_can_be_read(page: Path) -> None:
    assert all(json.loads(block.text) for block in blocks(page, "json"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_flags_that_are_named_exist(page: Path) -> None:
    named = set(FLAG.findall(page.read_text("utf-8")))
    assert named <= set(flags(root, click.Context(root))) | {"--help"} | FLAGS_OF_OTHERS


def flags(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from flags(inner, click.Context(inner, parent=context))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_metrics_that_are_named_exist(page: Path) -> None:
    listed = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    lost = [
        name
        for name in METRIC.findall(page.read_text("utf-8"))
        if f"| `{name}` |" not in listed and name != PYTEST_OPTION
    ]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_that_are_named_exist(page: Path) -> None:
    known = {shape(operation.path) for operation in OPERATIONS} | {STREAM_PATH, shape(ROUTE)}
    assert {shape(path) for path in PATH.findall(page.read_text("utf-8"))} <= known


def shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path.rstrip("."))
