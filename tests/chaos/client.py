"""A caller that notes what it asks for before it asks, and every answer that it got."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence

import aiohttp

from chaos.journals import journal

REPEAT_AFTER = 0.3
PATIENCE = 5.0  # seconds for an answer
PACE = 0.15
SENDERS = 3


class Client:
    """Repeats each request, with its key, at any of the APIs until one answers."""

    def __init__(self, place, addresses: Sequence[str], chance: random.Random) -> None:
        self.place = place
        self.addresses = addresses
        self.chance = chance
        self.numbers = itertools.count(1)
        self.is_ending = False
        self.refusals: list[str] = []

    @contextlib.asynccontextmanager
    async def sending(self):
        """What was asked for when the block ends is asked for until it is answered."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as session:
            self.session = session
            senders = [asyncio.create_task(self.send()) for _ in range(SENDERS)]
            try:
                yield self
            except BaseException:
                for sender in senders:
                    sender.cancel()
                raise
            finally:
                self.is_ending = True
                await asyncio.gather(*senders, return_exceptions=True)
            for sender in senders:
                sender.result()

    async def send(self) -> None:
        while not self.is_ending:
            await self.ask("work", [self.chance.choice((0.0, 0.02, 0.5, 2.0))])
            await asyncio.sleep(PACE * self.chance.random() * 2)

    async def ask(self, task: str, args: list[float]) -> None:
        number = next(self.numbers)
        journal(self.place / "intents", number)
        id = await self.answered(number, {"task": task, "args": [number, *args]})
        journal(self.place / "answers", number, id)

    async def answered(self, number: int, body: object) -> str:
        while True:
            url = f"http://{self.chance.choice(self.addresses)}/api/jobs"
            headers = {"Idempotency-Key": f"chaos-{number}"}
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with self.session.post(url, json=body, headers=headers) as answer:
                    response = await answer.json()
                    if answer.status < 300:
                        return response["id"]
                    self.note(answer.status, response)
            await asyncio.sleep(REPEAT_AFTER)

    def note(self, status: int, told: object) -> None:
        """To be told to come later is fair; to be told that the request is wrong is not."""
        if status not in {409, 429, 503}:
            self.refusals.append(f"{status} {told}")
