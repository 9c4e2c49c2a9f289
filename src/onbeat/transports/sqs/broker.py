"""SQS as a broker."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

from onbeat.ports.transport import Envelope, Inbox
from onbeat.transports.sqs.faults import NoQueue
from onbeat.transports.sqs.inbox import SqsInbox
from onbeat.transports.sqs.letters import batches, letter_of
from onbeat.transports.sqs.link import Link
from onbeat.transports.sqs.place import read_place
from onbeat.transports.sqs.queues import DEAD, Queues
from onbeat.transports.sqs.repeating import all_done

CLOSE_SLACK: Final = 1  # seconds above those of a poll under way


class SqsBroker:
    """`sqs://REGION`, with keys from where boto3 always takes them.

    Options of the URL: `endpoint` (of a stand-in), `prefix` (stands before the name of every
    queue), `visibility` (60 s; how long a message is kept from others unless it is extended),
    `wait` (10 s; the longest poll), `receives` (10; a message that was received so often goes to
    the queue `onbeat.dead`), `retention` (a day, in seconds) and `timeout` (10 s; of a call).

    Queues are standard ones: order is not kept and the key of an envelope not used. One that is
    there already keeps its attributes. `depth` and `purge` are as exact and as quick as SQS is: a
    purge may take a minute, and drop what is published meanwhile. Closing waits for polls that are
    under way, as nobody but they can give back what they may bring.
    """

    def __init__(self, url: str) -> None:
        """Raises `Misconfigured`."""
        self.place = read_place(url)
        self.link = Link(self.place)
        self.queues = Queues(self.link)
        self.inboxes: set[SqsInbox] = set()
        self.stragglers: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return self.place.url

    async def open(self) -> None:
        await self.link.open()

    async def close(self) -> None:
        for inbox in tuple(self.inboxes):
            await self.leave(inbox)
        if self.stragglers:
            await asyncio.wait(
                self.stragglers, timeout=self.place.wait + self.place.timeout + CLOSE_SLACK
            )
        self.link.close()

    async def ping(self) -> None:
        with suppress(NoQueue):
            await self.queues.asked(DEAD)

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        letters = [letter_of(envelope) for envelope in envelopes]
        if not letters:
            return
        await self.queues.made(queue)
        await all_done([self.queues.send(queue, batch) for batch in batches(letters)])

    def inbox(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Inbox]:
        return self.entered(queue, prefetch)

    @asynccontextmanager
    async def entered(self, queue: str, prefetch: int) -> AsyncGenerator[Inbox, None]:
        inbox = SqsInbox(self.queues, queue, prefetch)
        self.inboxes.add(inbox)
        try:
            yield inbox
        finally:
            await self.leave(inbox)

    async def leave(self, inbox: SqsInbox) -> None:
        if inbox not in self.inboxes:
            return
        self.inboxes.remove(inbox)
        for poll in inbox.polls:
            self.stragglers.add(poll)
            poll.add_done_callback(self.stragglers.discard)
        await inbox.leave()

    async def depth(self, queue: str) -> int:
        try:
            return await self.queues.depth(queue)
        except NoQueue:
            return 0

    async def purge(self, queue: str) -> None:
        with suppress(NoQueue):
            await self.queues.purge(queue)
