"""`onbeat pulse`: rates, lateness and depths of the last hour, day or week."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.output import plain, show_json, show_message, show_table

EPILOG: Final = examples(
    "onbeat pulse",
    "onbeat pulse --span day --queue mail",
    "onbeat pulse --span week --json",
    "onbeat pulse --queues",
)
BARS: Final = "▁▂▃▄▅▆▇█"
COLUMNS: Final = 40
GAP: Final = " "

Point = Mapping[str, Any]
Measure = Callable[[Point], float | None]


@click.command("pulse", epilog=EPILOG)
@click.option(
    "--span",
    type=click.Choice(["hour", "day", "week"]),
    default="hour",
    show_default=True,
    help="How far to look back.",
)
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--task", metavar="NAME", help="Only of this task.")
@click.option("--queues", "by_queue", is_flag=True, help="Starts of each queue in the last hour.")
@json_option
@with_client
def pulse(
    connection: ConnectionOptions,
    *,
    span: str,
    queue: str | None,
    task: str | None,
    by_queue: bool,
    as_json: bool,
) -> None:
    """Show how many jobs started, ended and waited, and how late they started.

    A blank column is a time in which nothing was measured.
    """
    if by_queue:
        show_queues(connection, as_json=as_json)
        return
    given = {"span": span, "queue": queue, "task": task}
    named = {name: value for name, value in given.items() if value is not None}
    answer = connection.call("pulse.show", named)
    show_json(answer) if as_json else show_lines(answer)


def show_queues(connection: ConnectionOptions, *, as_json: bool) -> None:
    answer = connection.call("pulse.queues")
    if as_json:
        show_json(answer)
        return
    rows = [
        (plain(name), *numbers(counts), line(counts))
        for name, counts in sorted(answer["queues"].items())
    ]
    show_table(("QUEUE", "LAST", "MOST", "STARTS A MINUTE"), rows, empty="nothing has started")


def show_lines(answer: Mapping[str, Any]) -> None:
    points = answer["points"]
    measures: dict[str, Measure] = {
        "started/s": rate_of("started"),
        "succeeded/s": rate_of("succeeded"),
        "failed/s": rate_of("failed"),
        "lateness p95, s": value_of("lateness_p95"),
        "duration p95, s": value_of("duration_p95"),
        "due": value_of("due"),
        "running": value_of("running"),
    }
    rows = [
        (name, *numbers(list(map(measure, points))), line(list(map(measure, points))))
        for name, measure in measures.items()
    ]
    show_table(("", "LAST", "MOST", f"LAST {answer['span'].upper()}"), rows, empty="no history")
    if answer["sample"] is not None:
        show_message(f"depths are a sample, {answer['sample']['age']:.0f} s old")


def rate_of(field: str) -> Measure:
    def measure(point: Point) -> float | None:
        count = point[field]
        return None if count is None else count / point["seconds"]

    return measure


def value_of(field: str) -> Measure:
    return lambda point: point[field]


def numbers(values: Sequence[float | None]) -> tuple[str, str]:
    """The newest and the largest value; a dash where there is none."""
    known = [value for value in values if value is not None]
    return (shown(known[-1]), shown(max(known))) if known else (plain("-"), plain("-"))


def shown(value: float) -> str:
    return plain(f"{value:,.3g}" if value < 100 else f"{value:,.0f}")


def line(values: Sequence[float | None], columns: int = COLUMNS) -> str:
    """One column for several points: their largest value."""
    most = max((value for value in values if value is not None), default=0.0)
    size = max(1, -(-len(values) // columns))
    groups = (values[at : at + size] for at in range(0, len(values), size))
    return "".join(bar(group, most) for group in groups)


def bar(values: Sequence[float | None], most: float) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return GAP
    top = len(BARS) - 1
    return BARS[round(max(known) / most * top) if most else 0]
