"""Processes that each move a recording, and are killed at step boundary number N.

A line of its input is `ID N`, and of its output the exit code. Boundaries are before and after each
call of a server and of the database.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from backoffice.database import Database, Session
from backoffice.recordings.ari import Ari, AriConfig
from backoffice.recordings.bucket import Bucket, client_for
from backoffice.recordings.move import Places, move
from backoffice.settings import SettingsApi
from outside import PASSWORD, TOKEN, USER


class Killer:
    def __init__(self, at: int) -> None:
        self.left = at

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        async def counted(*args: Any) -> Any:
            self.count()
            answer = await original(*args)
            self.count()
            return answer

        setattr(owner, name, counted)


async def main(id: str, at: str) -> None:
    killer = Killer(int(at))
    steps = {
        SettingsApi: ["user_settings"],
        Ari: ["fetch", "delete"],
        Bucket: ["owner_of", "put"],
        Session: ["row", "run"],
    }
    for owner, names in steps.items():
        for name in names:
            killer.around(owner, name)
    url, settings, ari = sys.argv[1:]
    config = AriConfig(url=f"{ari}/ari", username=USER, password=PASSWORD)
    await move(Places(Database(url), SettingsApi(settings, TOKEN), Ari(config)), int(id))


def serve() -> None:
    """Each line is a process to be: it costs no new interpreter, and no new client of S3."""
    client_for(asyncio.run(SettingsApi(sys.argv[2], TOKEN).user_settings()))
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(main(*line.split()))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
