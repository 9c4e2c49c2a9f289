"""Starts an attempt in another thread, which may take long to begin it."""

from collections.abc import Callable
from typing import TypeVar

from onbeat.ports.target import Run
from onbeat.targets.threads import Threads

Answer = TypeVar("Answer")


class LeaseUnsure(Exception):
    """The attempt has not begun: its lease may have been lost on the way to the thread."""


def begin(run: Run, call: Callable[[], Answer]) -> Answer:
    """Check the lease in the thread itself, last of all: the process may have been suspended."""
    if not run.is_held():
        raise LeaseUnsure
    return call()


async def run_held(threads: Threads, run: Run, call: Callable[[], Answer]) -> Answer:
    """Run the call in a thread, beginning while the lease is certainly held."""
    while True:
        try:
            answer: Answer = await threads.run(lambda: begin(run, call))
        except LeaseUnsure:
            await run.confirm()
        else:
            return answer
