"""`onbeat copy`."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from onbeat.app.copy import store_copy
from onbeat.app.copy.store_copy import CopyResult, Difference
from onbeat.app.copy.table_copy import Kind, OnProgress, Tally
from onbeat.app.stores import SQLITE, open_store
from onbeat.cli.client import json_option
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED, INTERRUPTED, OK
from onbeat.cli.output import plain, progress, show_json, show_message, show_table
from onbeat.cli.times import local_now
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.ports.store import Store
from onbeat.telemetry.redaction import escape_controls

SOURCE: Final = "--from"
TARGET: Final = "--to"


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result to show at the end. `alive` counts the live workers of the two stores."""

    source: str
    target: str
    alive: tuple[int, int]
    copied: CopyResult
    differences: list[Difference]


@click.command(
    "copy",
    epilog=examples(
        "onbeat copy --from sqlite:///onbeat.db --to postgresql://onbeat@db/onbeat",
        "onbeat copy --from sqlite:///onbeat.db --to mysql://root@db/jobs --dry-run",
    ),
)
@click.option(SOURCE, "source", metavar="URL", required=True, help="The store to copy.")
@click.option(TARGET, "target", metavar="URL", required=True, help="The store to copy into.")
@click.option("--dry-run", is_flag=True, help="Only count what there is to copy.")
@json_option
def copy(source: str, target: str, *, dry_run: bool, as_json: bool) -> int:
    """Copy all data of one store into another.

    Copies queues, schedules, jobs with their history and log lines, held keys, idempotency keys,
    events and dead letters; ids stay the same. A second run copies the changes since the first,
    including edits and deletions of schedules. Changes made in the target stay. Running jobs arrive
    waiting. Exit 1 when some data could not be copied.
    """
    stores = open_named_store(source, SOURCE), open_named_store(target, TARGET)
    if stores[0].url == stores[1].url:
        raise same_store_error()
    refuse_absent(source)
    if dry_run:
        show_counts(asyncio.run(count_source(stores[0])), stores, as_json=as_json)
        return OK
    try:
        report = asyncio.run(run_copy(*stores))
    except KeyboardInterrupt:
        warn("interrupted; run it again, and it goes on from here")
        return INTERRUPTED
    show_report_json(report) if as_json else show_report(report)
    return OK if report.copied.is_whole else FAILED


def open_named_store(url: str, option: str) -> Store:
    """The store of an option. Raises `Misconfigured` for a store that cannot be copied."""
    if url.startswith("memory:"):
        raise Misconfigured(f"{option}: memory:// lives inside one process and goes with it")
    try:
        return open_store(url)
    except Misconfigured as error:
        raise Misconfigured(f"{option}: {error}") from error


def same_store_error() -> click.UsageError:
    return click.UsageError(f"{SOURCE} and {TARGET} are the same store")


def refuse_absent(source: str) -> None:
    """Opening a missing file would create an empty store and copy nothing."""
    path = source.removeprefix(SQLITE)
    if source.startswith(SQLITE) and not Path(path).exists():
        raise Unavailable(f"{SOURCE}: there is no file {path}")


async def run_copy(source: Store, target: Store) -> CopyReport:
    async with open_stores(source, target):
        now = local_now()
        if await store_copy.are_same_store(source, target, now):
            raise same_store_error()
        alive = await warn_of_workers(source, target)
        with progress_bars(store_copy.totals(await source.stats(now))) as progress:
            answer = await store_copy.copy(source, target, now, progress)
        return CopyReport(
            source=source.url,
            target=target.url,
            alive=alive,
            copied=answer,
            differences=await store_copy.differences(source, target, now),
        )


@asynccontextmanager
async def open_stores(*stores: Store) -> AsyncGenerator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for store in stores:
            stack.push_async_callback(store.close)
            await store.open()
        yield


async def warn_of_workers(source: Store, target: Store) -> tuple[int, int]:
    """Count the live workers of each store, and warn about them."""
    now = local_now()
    ours, theirs = [len(await store_copy.live_workers(store, now)) for store in (source, target)]
    if ours:
        warn(
            f"{workers(ours)} of {source.url}: what is done there from now on is brought by "
            "another run, once they have stopped; running jobs arrive waiting"
        )
    if theirs:
        warn(f"{workers(theirs)} of {target.url}: jobs that arrive are run there at once")
    return ours, theirs


def workers(count: int) -> str:
    return "1 live worker" if count == 1 else f"{count} live workers"


def warn(message: str) -> None:
    click.echo(escape_controls(f"onbeat: {message}"), err=True)


@contextmanager
def progress_bars(totals: Mapping[Kind, int]) -> Generator[OnProgress]:
    """One progress bar for each kind in turn."""
    with contextlib.ExitStack() as drawn:
        shown: Kind | None = None
        advance: Callable[[int], None] = ignore_progress

        def advance_bar(kind: Kind, more: int) -> None:
            nonlocal shown, advance
            if kind is not shown:
                drawn.close()
                shown, advance = kind, drawn.enter_context(progress(kind, totals.get(kind)))
            advance(more)

        yield advance_bar


def ignore_progress(_more: int) -> None:
    """Progress before the first bar."""


async def count_source(source: Store) -> dict[Kind, int]:
    async with open_stores(source):
        with progress_bars({}) as progress:
            return await store_copy.count(source, local_now(), progress)


def show_counts(counts: Mapping[Kind, int], stores: tuple[Store, Store], *, as_json: bool) -> None:
    source, target = stores
    if as_json:
        to_copy = {key_of(kind): count for kind, count in counts.items()}
        show_json({"from": source.url, "to": target.url, "dry_run": True, "to_copy": to_copy})
        return
    rows = [(plain(kind), plain(f"{count:,}")) for kind, count in counts.items()]
    show_table(("", "TO COPY"), rows, empty="", right=("TO COPY",))


def key_of(kind: Kind) -> str:
    return kind.replace(" ", "_")


def show_report_json(report: CopyReport) -> None:
    show_json(
        {
            "from": report.source,
            "to": report.target,
            "dry_run": False,
            "live_workers": {"from": report.alive[0], "to": report.alive[1]},
            "copied": {
                key_of(kind): msgspec.structs.asdict(tally)
                for kind, tally in report.copied.tallies.items()
            },
            "only_in_target": {
                "schedules": report.copied.only_in_target.left,
                "named": report.copied.only_in_target.named,
            },
            "differences": [
                {"what": difference.what, "from": difference.source, "to": difference.target}
                for difference in report.differences
            ],
            "whole": report.copied.is_whole,
        }
    )


COUNTS: Final = ("READ", "CHANGED", "LEFT")

LEFT_WORDS: Final = {
    Kind.SCHEDULES: "schedules stay as they are in the target: edited or planned on there",
    Kind.DISPOSITIONS: (
        "coming occurrences have another job in the target, or one of its own. The schedules:"
    ),
    Kind.JOBS: (
        "jobs stay as they are in the target: they went on there, or another job has their unique "
        "key"
    ),
}


def show_report(report: CopyReport) -> None:
    rows = [
        (plain(kind), *(plain(f"{count:,}") for count in (tally.read, tally.changed, tally.left)))
        for kind, tally in report.copied.tallies.items()
    ]
    show_table(("", *COUNTS), rows, empty="", right=COUNTS)
    for kind, words in LEFT_WORDS.items():
        show_examples(report.copied.tallies[kind], words)
    show_examples(
        report.copied.only_in_target,
        "schedules are in the target alone; where they were deleted in the source, delete them "
        "there too once nothing of them runs, by `onbeat schedule delete ID`",
    )
    for difference in report.differences:
        show_message(
            f"{difference.what}: {difference.source:,} in the source,"
            f" {difference.target:,} in the target"
        )


def show_examples(tally: Tally, words: str) -> None:
    if tally.left:
        more = tally.left - len(tally.named)
        show_message(
            f"{tally.left:,} {words}: {', '.join(tally.named)}" + (", …" if more > 0 else "")
        )
