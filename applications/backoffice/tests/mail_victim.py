"""A worker that is killed when the mail API has taken a mail, before that is written."""

import asyncio
import os
import signal
import sys
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from backoffice import mails
from backoffice.database import Database
from backoffice.mails.dispatch import Answer, MailApi, Taken, post
from onbeat import Onbeat, Options
from outside import MAIL_KEY


async def nothing(*_: object) -> int:
    return 0


async def posted_and_killed(*values: Any) -> Answer:
    answer = await post(*values)
    assert answer == Taken()
    os.kill(os.getpid(), signal.SIGKILL)
    return answer


async def main(jobs: str, world: str, url: str, at: str) -> None:
    vars(mails)["post"] = posted_and_killed
    options = Options()
    options = replace(options, runtime=replace(options.runtime, lease=timedelta(seconds=1)))
    beat = Onbeat(jobs, options=options)
    api = MailApi(url=url, key=MAIL_KEY)
    selections = mails.add_mails(beat, Database(world), api, "UTC", nothing)
    async with beat:
        await selections["free_trial_expiring"].asend(datetime.fromisoformat(at))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
