"""`python -m onbeat.cli.sibling`: as `python -m onbeat`, and drains when its starter is gone.

Its standard input is a pipe that only the starter holds: the end of that tells of any death.
"""

import os
import signal
import threading

from onbeat.cli.main import main


def follow_starter() -> None:
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what handlers start shall not read from the pipe
    os.close(nothing)
    threading.Thread(target=drain_after, args=(pipe,), name="starter", daemon=True).start()


def drain_after(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    follow_starter()
    main()
