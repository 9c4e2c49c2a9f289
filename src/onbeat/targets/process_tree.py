"""Ends a process together with all of its descendants.

Every isolated child leads its own session, and on Linux adopts orphaned descendants
(`PR_SET_CHILD_SUBREAPER`), so that even a process that left the session stays in its tree. This
file is also the program of the reaper, which ends the trees of a worker that died.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

PR_SET_CHILD_SUBREAPER: Final = 36
PPID, START = 1, 19  # fields of /proc/PID/stat after the name
PROC: Final = Path("/proc")
HAS_PROC: Final = sys.platform == "linux" and (PROC / "self/stat").exists()
ROUNDS_MAX: Final = 100  # for descendants that start others while they are being ended


class Identity(NamedTuple):
    """A process by pid and start time, since pids are reused."""

    pid: int
    start: str


def lead_session() -> None:
    """Called by a new child, so that its descendants can be ended together with it."""
    if sys.platform == "win32":
        return
    os.setsid()
    if sys.platform == "linux":
        # Without prctl in the C library, only the session is used.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def identity(pid: int) -> Identity:
    stat = stat_of(pid)
    return Identity(pid, stat[START] if stat else "")


def stat_of(pid: int | str) -> list[str]:
    """The fields after the name, which may contain anything; empty if there is no such process."""
    try:
        return (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def descendants(root: int) -> list[Identity]:
    """All descendants of this process. Empty if the system has no /proc."""
    if not HAS_PROC:
        return []
    children: dict[int, list[Identity]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (stat := stat_of(entry.name)):
            children[int(stat[PPID])].append(Identity(int(entry.name), stat[START]))
    return list(below(root, children))


def below(root: int, children: dict[int, list[Identity]]) -> Iterator[Identity]:
    waiting = [root]
    while waiting:
        result = children.pop(waiting.pop(), [])
        yield from result
        waiting += [one.pid for one in result]


def has_children() -> bool:
    """Whether this process has child processes, adopted ones included. True if unknown."""
    if sys.platform == "win32":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_own_descendants() -> None:
    """End all descendants of this process, but not itself. Returns when they have ended.

    Orphans are adopted by this process, so all have ended once it has no child.
    """
    if has_children() and not HAS_PROC:
        end_own_group()
        return
    while has_children():
        send(descendants(os.getpid()), signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def end_own_group() -> None:
    """The best effort without /proc: send SIGTERM to the others of the process group."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def send(processes: Iterable[Identity], number: int) -> None:
    for process in processes:
        if identity(process.pid) == process:
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)


def signal_session(leader: int, number: int) -> None:
    """Signal the leader's group, or only the leader while it has no group yet."""
    with contextlib.suppress(OSError):
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            os.kill(leader, number)


def kill_tree(leader: Identity) -> None:
    """End the leader and its descendants; repeats for processes that they start meanwhile."""
    if not HAS_PROC:
        signal_session(leader.pid, signal.SIGKILL)
        return
    # A script must not go on with its next line when what it waits for is killed.
    send([leader], signal.SIGSTOP)
    if identity(leader.pid) != leader:
        return
    known: set[Identity] = set()
    for _ in range(ROUNDS_MAX):
        new = set(descendants(leader.pid)) - known
        send(new, signal.SIGKILL)
        known |= new
        if not new:
            break
    signal_session(leader.pid, signal.SIGKILL)


def keep(lines: Iterable[str]) -> None:
    """Read started (`+PID START`) and ended (`-PID START`) children; at the end, kill the rest."""
    leaders: set[Identity] = set()
    for line in lines:
        pid, _, start = line[1:].strip().partition(" ")
        leader = Identity(int(pid), start)
        (leaders.add if line.startswith("+") else leaders.discard)(leader)
    for leader in leaders:
        kill_tree(leader)


if __name__ == "__main__":
    keep(sys.stdin)
