"""A program that runs a flow and is killed while it does; it says how many jobs have run.

The flow has groups: a first job, many after it, and a last one after those. In some groups the
first job fails. One job waits for all of them.
"""

import itertools
import sys
from datetime import timedelta
from pathlib import Path

from onbeat import Context, Onbeat, Options, Retry, on_end
from onbeat.app.call import Call
from onbeat.model.job import JobState
from onbeat.model.signals import Fail

groups, size, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

STEP = 100
FAILING = 7  # every so many groups

beat = Onbeat(Path("store").read_text(), options=Options(drain_timeout=timedelta(seconds=0.05)))
done = itertools.count(1)


@beat.task("first")
async def first(group: int) -> None:
    count()
    if group % FAILING == 0:
        raise Fail("of its own", retryable=False)


@beat.task("middle")
async def middle(context: Context) -> None:
    check(context)
    count()


@beat.task("last")
async def last(context: Context) -> None:
    check(context)
    count()


@beat.task("close")
async def close() -> None:
    say("closed")


def check(context: Context) -> None:
    """The times of a claim and of an end that it saw may differ by the way to the store."""
    if any(earlier.state is not JobState.SUCCEEDED for earlier in context.after.values()):
        raise Fail("it began too early", retryable=False)


def count() -> None:
    if (number := next(done)) % STEP == 0:
        say("ran", number)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + ";\n")
    sys.stdout.flush()


def flow() -> list[Call[None]]:
    calls: list[Call[None]] = [close.options(after=on_end("sent")).call()]
    for group in range(groups):
        head = first.options(retry=Retry(attempts_max=1)).call(group)
        follow = [middle.options(after=head).call() for _ in range(size)]
        calls += [last.options(after=follow).call(), *follow, head]
    return calls


if kind == "send":
    say("sent", beat.send(flow())[0].id)
    beat.backend.wait_for(beat.aclose())
    beat.backend.portal.close()
else:
    beat.run()
