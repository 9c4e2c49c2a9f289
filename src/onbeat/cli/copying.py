"""`onbeat copy`."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from onbeat.app import copying
from onbeat.app.composition import SQLITE, open_store
from onbeat.app.copying import Copied, Difference
from onbeat.app.crossing import Kind, Tally, Told
from onbeat.cli.connection import json_option
from onbeat.cli.endings import FAILED, INTERRUPTED, OK
from onbeat.cli.examples import examples
from onbeat.cli.output import done, plain, progress, show_json, show_table
from onbeat.cli.times import present
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.ports.store import Store
from onbeat.telemetry.redaction import escape_controls

SOURCE: Final = "--from"
TARGET: Final = "--to"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to tell at the end. `alive` are workers of the two stores."""

    source: str
    target: str
    alive: tuple[int, int]
    copied: Copied
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
    """Copy everything of one store into another.

    Queues, schedules, jobs with their history and dead letters; ids stay as they are. Run it again,
    and it brings what has changed since, edits and deletions of schedules too. What has gone on in
    the target by itself stays. Running jobs arrive waiting. Exit 1 when something could not be
    brought.
    """
    stores = named(source, SOURCE), named(target, TARGET)
    if stores[0].url == stores[1].url:
        raise one_store()
    refuse_absent(source)
    if dry_run:
        show_counts(asyncio.run(counted(stores[0])), stores, as_json=as_json)
        return OK
    try:
        report = asyncio.run(copied(*stores))
    except KeyboardInterrupt:
        warn("interrupted; run it again, and it goes on from here")
        return INTERRUPTED
    show_report_json(report) if as_json else show_report(report)
    return OK if report.copied.is_whole else FAILED


def named(url: str, option: str) -> Store:
    """The store of an option. Raises `Misconfigured` for one that can be no side of a copy."""
    if url.startswith("memory:"):
        raise Misconfigured(f"{option}: memory:// lives inside one process and goes with it")
    try:
        return open_store(url)
    except Misconfigured as error:
        raise Misconfigured(f"{option}: {error}") from error


def one_store() -> click.UsageError:
    return click.UsageError(f"{SOURCE} and {TARGET} are the same store")


def refuse_absent(source: str) -> None:
    """To open a file that is not there would make one, and a copy of nothing."""
    path = source.removeprefix(SQLITE)
    if source.startswith(SQLITE) and not Path(path).exists():
        raise Unavailable(f"{SOURCE}: there is no file {path}")


async def copied(source: Store, target: Store) -> Report:
    async with opened(source, target):
        now = present()
        if await copying.are_one(source, target, now):
            raise one_store()
        alive = await warned(source, target)
        with bars(copying.totals(await source.stats(now))) as told:
            answer = await copying.copy(source, target, now, told)
        return Report(
            source=source.url,
            target=target.url,
            alive=alive,
            copied=answer,
            differences=await copying.differences(source, target, now),
        )


@asynccontextmanager
async def opened(*stores: Store) -> AsyncGenerator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for store in stores:
            stack.push_async_callback(store.close)
            await store.open()
        yield


async def warned(source: Store, target: Store) -> tuple[int, int]:
    """How many workers of each store are alive; says what that means."""
    now = present()
    ours, theirs = [len(await copying.living(store, now)) for store in (source, target)]
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
def bars(totals: Mapping[Kind, int]) -> Generator[Told]:
    """A bar for each kind in turn."""
    with contextlib.ExitStack() as drawn:
        shown: Kind | None = None
        advance: Callable[[int], None] = ignored

        def told(kind: Kind, more: int) -> None:
            nonlocal shown, advance
            if kind is not shown:
                drawn.close()
                shown, advance = kind, drawn.enter_context(progress(kind, totals.get(kind)))
            advance(more)

        yield told


def ignored(_more: int) -> None:
    """Nothing is drawn yet."""


async def counted(source: Store) -> dict[Kind, int]:
    async with opened(source):
        with bars({}) as told:
            return await copying.count(source, present(), told)


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


def show_report_json(report: Report) -> None:
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
                "schedules": report.copied.strange.left,
                "named": report.copied.strange.named,
            },
            "differences": [
                {"what": one.what, "from": one.source, "to": one.target}
                for one in report.differences
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


def show_report(report: Report) -> None:
    rows = [
        (plain(kind), *(plain(f"{count:,}") for count in (tally.read, tally.changed, tally.left)))
        for kind, tally in report.copied.tallies.items()
    ]
    show_table(("", *COUNTS), rows, empty="", right=COUNTS)
    for kind, words in LEFT_WORDS.items():
        tell_some(report.copied.tallies[kind], words)
    tell_some(
        report.copied.strange,
        "schedules are in the target alone; where they were deleted in the source, delete them "
        "there too once nothing of them runs, by `onbeat schedule delete ID`",
    )
    for one in report.differences:
        done(f"{one.what}: {one.source:,} in the source, {one.target:,} in the target")


def tell_some(tally: Tally, words: str) -> None:
    if tally.left:
        more = tally.left - len(tally.named)
        done(f"{tally.left:,} {words}: {', '.join(tally.named)}" + (", …" if more > 0 else ""))
