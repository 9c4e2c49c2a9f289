"""Output: tables for people, JSON for programs, and progress bars."""

import os
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from onbeat.telemetry.redaction import escape_controls

PIPE_WIDTH: Final = 100_000
"""Columns where there is no terminal: programs read whole lines."""

INDENT: Final = "  "
ID_STATE_AND_TIME: Final = 72
"""Columns of a terminal that these three need in a table at most."""

WHOLE: Final = ("ID", "STATE", "STATUS", "DUE", "NEXT", "TIME", "STARTED", "HEARD", "OLDEST DUE")
STATE_STYLES: Final = {
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "active": "green",
    "paused": "yellow",
    "ok": "green",
    "warn": "yellow",
}

Cell = str | int | float | None


def console(*, stderr: bool = False) -> Console:
    """Colours only on a terminal and without NO_COLOR; no line is folded where there is none."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(
        stderr=stderr,
        highlight=False,
        emoji=False,
        width=width,
        # Rich keeps bold and dim with NO_COLOR; here it disables all styles.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def show_json(answer: object) -> None:
    click.echo(formatted_json(answer))


def formatted_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def plain(value: object, *, keep_newlines: bool = False) -> str:
    """A value for a cell, without control characters and markup."""
    if value is None or value == "":
        return "-"
    return escape(escape_controls(str(value), keep_newlines=keep_newlines))


def styled_state(state: str) -> str:
    style = STATE_STYLES.get(state)
    return f"[{style}]{plain(state)}[/]" if style else plain(state)


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    right: Sequence[str] = (),
    whole: Sequence[str] = WHOLE,
    below: Sequence[str] = (),
) -> None:
    """Print a table. Cells are markup, `right` are aligned right, `whole` never wrap.

    `below` has a text for each row, which is printed below it, so that no column is narrow.
    """
    table = table_of(columns, rows, right=right, whole=whole, are_cut=bool(below))
    if table.row_count:
        print_table(table, below)
    else:
        click.echo(empty)


def show_with_last(
    columns: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str], *, empty: str
) -> None:
    """Print a table of ids, states and times.

    The `last` cells, which may be long, have a column of their own, or each a line below its row
    where that would be narrow.
    """
    if max(map(len, last), default=0) > console().width - ID_STATE_AND_TIME:
        show_table(columns[:-1], rows, empty=empty, below=last)
    else:
        wide = [(*row, cell) for row, cell in zip(rows, last, strict=True)]
        show_table(columns, wide, empty=empty)


def table_of(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = WHOLE,
    are_cut: bool = False,
) -> Table:
    """`are_cut` keeps each row on one line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="ellipsis" if are_cut else "fold",
            no_wrap=are_cut or column in whole,
        )
    for row in rows:
        table.add_row(*row)
    return table


def table_text(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    whole: Sequence[str] = WHOLE,
    stderr: bool = False,
) -> str:
    """The table without trailing spaces, as wide as its stream allows; empty without rows."""
    return rendered(table_of(columns, rows, whole=whole), stderr=stderr) if rows else ""


def show_record(fields: Mapping[str, str]) -> None:
    """Print names and values, one pair per line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, value)
    print_table(table)


def print_table(table: Table, below: Sequence[str] = ()) -> None:
    """Print the table without trailing spaces, and the texts below its rows."""
    text = rendered(table)
    if below:
        head, *rows = text.splitlines()
        indented = [textwrap.indent(escape_controls(one), INDENT) for one in below]
        text = "\n".join([head, *chain.from_iterable(zip(rows, indented, strict=True))])
    click.echo(text)


def rendered(table: Table, *, stderr: bool = False) -> str:
    target = console(stderr=stderr)
    with target.capture() as captured:
        target.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def heading(text: str) -> None:
    console().print(f"\n[bold]{plain(text)}[/]")


def show_message(message: str) -> None:
    click.echo(escape_controls(message))


def tell_page(answer: Mapping[str, Any], shown: int, total: int) -> None:
    """Say how to see the next page, if `shown` of this one are not the last of `total`."""
    page = answer["page"]
    until = (page - 1) * answer["limit"] + shown
    if shown and until < total:
        show_message(f"{until} of {total}; see more with --page {page + 1}")


def tell_cursor(answer: Mapping[str, Any]) -> None:
    """Say how to see the next page, if there is one."""
    if answer["cursor"]:
        show_message(f"see more with --cursor {answer['cursor']}")


def warn_of_unknown_tasks(*answers: Mapping[str, Any]) -> None:
    """On standard error, so that what a program reads stays as it is."""
    tasks = sorted({task for answer in answers for task in answer.get("unknown_tasks", ())})
    if tasks:
        named = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {', '.join(tasks)}"
        message = f"no live worker knows the {named}; the jobs wait until one does"
        click.echo(f"onbeat: {escape_controls(message)}", err=True)


def json_text(value: object) -> str:
    return plain(msgspec.json.encode(value).decode())


@contextmanager
def progress(what: str, total: int | None) -> Generator[Callable[[int], None]]:
    """A progress bar on standard error, on a terminal only. Calls add to its count."""
    drawn = console(stderr=True)
    columns: list[Any] = [
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=drawn, transient=True, disable=not drawn.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
