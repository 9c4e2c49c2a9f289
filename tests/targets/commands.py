"""Attempts at commands with real processes, and what is left of them."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from onbeat.model.log_line import LogEntry
from onbeat.model.target import CommandTarget
from onbeat.targets.command.runner import CommandRunner
from onbeat.testing.build import a_job
from targets.runs import CLOCK, ARun, a_run

SHELL = "/bin/sh"
PYTHON = sys.executable


class KeptEntries:
    """A log of an attempt."""

    def __init__(self, level: int | None = 20) -> None:
        self.kept_level = level
        self.entries: list[LogEntry] = []

    def add_entry(self, entry: LogEntry) -> None:
        self.entries.append(entry)

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries]


def a_command(*argv: str, job: Any = (), **parts: Any) -> ARun:
    run = a_run("http://x/")
    target = CommandTarget(argv, **parts)
    run.job = msgspec.structs.replace(a_job(), target=target, attempt=2, **dict(job))
    return run


def a_shell(script: str, *args: str, **parts: Any) -> ARun:
    return a_command(SHELL, "-c", script, *args, **parts)


@asynccontextmanager
async def a_runner(*allowed: str) -> AsyncGenerator[CommandRunner]:
    runner = CommandRunner(CLOCK, allowed or (SHELL, PYTHON))
    await runner.open()
    try:
        yield runner
    finally:
        await runner.close()


def has_ended(pid: int) -> bool:
    """Whether no such process runs; one that nobody has waited for has ended, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[0] in {"Z", "X"}


def pids_in(file: Path) -> list[int]:
    """The pids that a script has written, one a line."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
