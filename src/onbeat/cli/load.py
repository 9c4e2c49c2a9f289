"""`onbeat load`: jobs at a rate, and how long each of their ways took."""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED, INTERRUPTED, OK, UNREACHABLE
from onbeat.cli.options import field, refuse_beside, task_body
from onbeat.cli.output import console, plain, show_json, show_message, show_record, show_table
from onbeat.model.errors import Invalid
from onbeat.model.limits import LOAD_CONNECTIONS_MAX, PAYLOAD_BYTES_MAX
from onbeat.model.load import LoadPlan, Pacing
from onbeat.rules.load_tally import LoadReport
from onbeat.rules.load_times import check_load
from onbeat.rules.percentiles import Percentiles
from onbeat.wire.values import read_span

if TYPE_CHECKING:
    from onbeat.app.load.run import Load, LoadProgress

TASK: Final = "onbeat.load"


@click.command(
    "load",
    epilog=examples(
        "onbeat load --server http://127.0.0.1:8080 --rate 100 --for 10s",
        "onbeat load --rate 50 --for 1m --payload 1000 --connections 8",
        "onbeat load --task mail.render --args '[7]' --rate 5 --for 30s",
        "onbeat load --rate 2000 --for 10s --wait 0s --json",
    ),
)
@click.option(
    "--rate", type=float, default=10.0, show_default=True, metavar="N", help="Jobs a second."
)
@click.option(
    "--for", "span", default="10s", show_default=True, metavar="SPAN", help="How long to send."
)
@click.option(
    "--pacing",
    type=click.Choice([pacing.value for pacing in Pacing]),
    default=Pacing.POISSON.value,
    show_default=True,
    help="Random gaps, as of many callers, or equal ones.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, LOAD_CONNECTIONS_MAX),
    default=16,
    show_default=True,
    metavar="N",
    help="Requests that may be under way at once.",
)
@click.option("--task", default=TASK, show_default=True, metavar="NAME", help="What to run.")
@field("--args", metavar="JSON", help="Its positional arguments, e.g. '[7]'.")
@field("--kwargs", metavar="JSON", help="Its named arguments.")
@click.option(
    "--payload",
    type=click.IntRange(0, PAYLOAD_BYTES_MAX // 2),
    default=0,
    show_default=True,
    metavar="BYTES",
    help="Size of an argument named payload.",
)
@click.option(
    "--queue", default="load", show_default=True, metavar="NAME", help="A queue for it alone."
)
@click.option(
    "--wait",
    default="1m",
    show_default=True,
    metavar="SPAN",
    help="Wait so long for the ends; 0s measures sending alone.",
)
@click.option("--cleanup", is_flag=True, help="Cancel what still waits at the end.")
@json_option
@with_client
def load(connection: ConnectionOptions, *, cleanup: bool, as_json: bool, **values: Any) -> int:
    """Send jobs at a rate, and print how long sending, starting and ending took.

    Each request has its time, whatever the service needs for those before it,
    and its latency counts from then. A worker has to run the task; for the
    default one start it by `onbeat up onbeat.testing.load`.

    Exit 0 when every job has succeeded, 1 when not. Ctrl-C prints what there is.
    """
    plan = plan_of(values)
    body = body_of(values)
    report, cancelled = asyncio.run(run(connection, plan, body, cleanup=cleanup))
    if as_json:
        show_json(report)
    else:
        show_report(report)
        if cancelled:
            show_message(f"{cancelled:,} waiting jobs are being cancelled")
    return exit_code_of(report)


def plan_of(values: Mapping[str, Any]) -> LoadPlan:
    """Raises `UsageError` for a load that is over a bound."""
    # Loaded here: the help starts sooner without what the service needs.
    from onbeat.app.system import SystemRandomness  # noqa: PLC0415

    try:
        plan = LoadPlan(
            run=SystemRandomness().ids(1)[0],
            task=values["task"],
            queue=values["queue"],
            rate=values["rate"],
            span=seconds_of(values["span"], "--for"),
            pacing=Pacing(values["pacing"]),
            connections=values["connections"],
            payload=values["payload"],
            patience=seconds_of(values["wait"], "--wait"),
        )
        check_load(plan)
    except Invalid as error:
        raise click.UsageError(str(error)) from None
    return plan


def seconds_of(text: str, option: str) -> float:
    return read_span(text, option).total_seconds()


def body_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The target in the form of the API."""
    if values["payload"]:
        refuse_beside("--payload", values, "kwargs")
        return {**task_body({**values, "encrypted": False}), "kwargs": payload_of(values)}
    return task_body({**values, "encrypted": False})


def payload_of(values: Mapping[str, Any]) -> dict[str, str]:
    return {"payload": "x" * values["payload"]}


async def run(
    connection: ConnectionOptions, plan: LoadPlan, body: dict[str, Any], *, cleanup: bool
) -> tuple[LoadReport, int]:
    """The figures, and how many jobs are being cancelled."""
    import msgspec  # noqa: PLC0415  with the following, as above

    from onbeat.app.load.run import Load  # noqa: PLC0415
    from onbeat.wire.targets import TargetBody  # noqa: PLC0415

    target = msgspec.json.decode(msgspec.json.encode(body), type=TargetBody)
    async with connection.connect() as backend:
        one = Load(backend, plan, target)
        report = await until_interrupted(one)
        return report, await one.cancel_rest() if cleanup and may_wait(report) else 0


def may_wait(report: LoadReport) -> bool:
    return report.unended > 0 or not report.is_read


async def until_interrupted(one: "Load") -> LoadReport:
    """The first Ctrl-C ends the load early; a second one ends the program."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end_early() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop.set()

    # Threads other than the first, and Windows, have no handlers.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, end_early)
    try:
        return await one.run(stop, show_progress)
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGINT)


def show_progress(progress: "LoadProgress") -> None:
    """A line a second, on a terminal only."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        return
    parts = [f"{progress.seconds:4.0f} s", f"sent {progress.sent:,}/s"]
    if progress.ended is not None:
        parts += [
            f"done {progress.ended:,}/s",
            f"waiting {progress.waiting:,}",
            f"running {progress.running:,}",
        ]
    if progress.errors:
        parts.append(f"errors {progress.errors:,}")
    click.echo("  ".join(parts), err=True)


def show_report(report: LoadReport) -> None:
    rates = {
        "offered": f"{report.offered:,} jobs at {report.offered_rate:,.1f}/s",
        "sent": f"{report.sent:,} at {report.sent_rate:,.1f}/s in {report.seconds:.1f} s",
    }
    if report.is_read:
        rates["ended"] = ended_words(report)
        rates["not ended"] = f"{report.unended:,}"
    show_record({name: plain(text) for name, text in rates.items()})
    show_message("")
    measured = {
        "send": report.send,
        "start": report.start,
        "end to end": report.end_to_end,
        "sender behind": report.sender_lag,
    }
    rows = [(plain(name), *cells(one)) for name, one in measured.items() if one.count]
    columns = ("MS", "P50", "P95", "P99", "MAX")
    show_table(columns, rows, empty="nothing was answered", right=columns[1:])
    show_counts("errors", report.errors)
    show_counts("failures", report.failures)
    for line in remarks(report):
        show_message(line)


def ended_words(report: LoadReport) -> str:
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(report.ended.items()))
    rate = "" if report.ended_rate is None else f" at {report.ended_rate:,.1f}/s"
    return (states or "none") + rate


def cells(measured: Percentiles) -> tuple[str, ...]:
    values = (measured.p50, measured.p95, measured.p99, measured.max)
    return tuple("-" if value is None else f"{value * 1000:,.1f}" for value in values)


def show_counts(name: str, counts: Mapping[str, int]) -> None:
    if counts:
        show_message(f"\n{name}:")
        for kind, count in sorted(counts.items(), key=lambda one: -one[1]):
            show_message(f"  {count:,} {kind}")


def remarks(report: LoadReport) -> list[str]:
    """What the figures do not tell by themselves."""
    lines: list[str] = []
    if report.end_to_end.count:
        lines.append(f"end to end is exact to {report.clock_error * 1000:.1f} ms of two clocks")
    if report.is_read and report.found < report.sent:
        lines.append(f"{report.sent - report.found:,} accepted jobs were not found again")
    if report.is_interrupted:
        lines.append("interrupted")
    if not report.is_read:
        lines.append("the ends of the jobs were not read")
    return ["", *lines] if lines else []


def exit_code_of(report: LoadReport) -> int:
    if report.is_interrupted:
        return INTERRUPTED
    if report.offered and not report.sent and is_unreachable(report):
        return UNREACHABLE
    return OK if report.is_clean else FAILED


def is_unreachable(report: LoadReport) -> bool:
    return all(kind.startswith("unavailable:") for kind in report.errors)
