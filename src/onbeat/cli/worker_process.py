"""`python -m onbeat.cli.worker_process`: like `python -m onbeat`, and drains with its parent.

Its standard input is a pipe that only the parent holds: it closes however the parent ends.
"""

import os
import signal
import threading

from onbeat.cli.main import main


def follow_starter() -> None:
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # processes started by handlers must not read from the pipe
    os.close(nothing)
    threading.Thread(target=drain_after, args=(pipe,), name="starter", daemon=True).start()


def drain_after(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    follow_starter()
    main()
