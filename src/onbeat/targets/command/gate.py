"""The program that becomes a command, once its worker has said what to run.

It waits for its order from the worker's socket. Until then the worker has told the reaper of this
process: a worker that dies meanwhile closes the socket, and nothing is run.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
END = b"end"
CHUNK = 65_536


def order_of(argv: "tuple[str, ...]", env: "dict[str, str]", cwd: str) -> bytes:
    """What to run, as texts that end with NUL."""
    pairs = [f"{name}={value}" for name, value in env.items()]
    texts = [cwd, str(len(argv)), *argv, *pairs]
    return b"\0".join([*(os.fsencode(text) for text in texts), END])


def main(fd: int) -> None:
    os.set_inheritable(fd, False)
    order = read_order(fd)
    if order is None:
        return
    cwd, count, *texts = order
    argv, pairs = texts[: int(count)], texts[int(count) :]
    env = dict(pair.split(b"=", 1) for pair in pairs)
    # Python ignores these, and what is ignored stays so in the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    adopt_orphans()
    try:
        if cwd:
            os.chdir(cwd)
        os.execve(argv[0], argv, env)  # noqa: S606  what the worker allows, without a shell
    except OSError as error:
        os.write(fd, str(error.errno).encode())


def read_order(fd: int) -> "list[bytes] | None":
    """None for an order that was not sent whole."""
    chunks: list[bytes] = []
    while chunk := os.read(fd, CHUNK):
        chunks.append(chunk)
    *texts, end = b"".join(chunks).split(b"\0")
    return texts if end == END and texts else None


def adopt_orphans() -> None:
    """Descendants that leave the session stay below this process; the mark outlives `execve`."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
