"""The queues of SQS under their names, made when they are first used, and what is done to them."""

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final

from onbeat.model.errors import Unavailable
from onbeat.transports.sqs.faults import Exists, NoQueue, Purging
from onbeat.transports.sqs.letters import BATCH_MAX, TYPE, Letter
from onbeat.transports.sqs.link import Link
from onbeat.transports.sqs.repeating import Refusal, refusals, repeated

if TYPE_CHECKING:  # the package of types is there for the checkers only
    from types_boto3_sqs.client import SQSClient
    from types_boto3_sqs.literals import QueueAttributeNameType
    from types_boto3_sqs.type_defs import MessageTypeDef, SendMessageBatchRequestEntryTypeDef

# Where what was received too often ends up, beside what Onbeat itself puts aside.
DEAD: Final = "onbeat.dead"
DEAD_RETENTION: Final = "1209600"  # SQS's own limit: an operator has the longest time to look


class Queues:
    """Every verb raises `Unavailable`, and `NoQueue` where it does not make the queue."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.urls: dict[str, str] = {}

    async def send(self, queue: str, letters: Sequence[Letter]) -> None:
        """Up to ten letters. Raises `Unavailable` unless SQS has taken all of them."""
        if refused := await repeated(partial(self.send_once, queue), letters):
            raise Unavailable(
                f"SQS {self.link.place.url} did not take {len(refused)} of {len(letters)} messages"
                f" ({refused[0][1].code})"
            )

    async def send_once(self, queue: str, letters: Sequence[Letter]) -> list[Refusal]:
        entries = [entry_of(str(number), letter) for number, letter in enumerate(letters)]

        async def send(url: str) -> list[Refusal]:
            answer = await self.link.call(
                lambda sqs: sqs.send_message_batch(QueueUrl=url, Entries=entries)
            )
            return refusals(answer.get("Failed", []))

        try:
            return await send(await self.made(queue))
        except NoQueue:  # somebody deleted it since
            self.urls.pop(queue, None)
            return await send(await self.made(queue))

    async def receive(
        self, queue: str, limit: int, seconds: int, threads: Executor
    ) -> "Sequence[MessageTypeDef]":
        """Up to ten messages; SQS waits `seconds` for the first."""
        url = await self.made(queue)
        visibility = self.link.place.visibility

        def receive(sqs: "SQSClient") -> "Sequence[MessageTypeDef]":
            return sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=limit,
                WaitTimeSeconds=seconds,
                VisibilityTimeout=visibility,
                MessageAttributeNames=["All"],
            ).get("Messages", [])

        try:
            return await self.link.poll(threads, receive, seconds)
        except NoQueue:  # somebody deleted it since
            self.urls.pop(queue, None)
            raise

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[tuple[str, Refusal]]:
        """Up to ten."""
        url = await self.made(queue)

        async def delete(receipts: Sequence[str]) -> list[Refusal]:
            answer = await self.link.call(
                lambda sqs: sqs.delete_message_batch(
                    QueueUrl=url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": receipt}
                        for number, receipt in enumerate(receipts)
                    ],
                )
            )
            return refusals(answer.get("Failed", []))

        return await repeated(delete, receipts)

    async def hide(
        self, queue: str, seconds: int, receipts: Sequence[str]
    ) -> list[tuple[str, Refusal]]:
        """Up to ten, from now on for so long; 0 gives them back at once."""
        url = await self.made(queue)

        async def hide(receipts: Sequence[str]) -> list[Refusal]:
            answer = await self.link.call(
                lambda sqs: sqs.change_message_visibility_batch(
                    QueueUrl=url,
                    Entries=[
                        {
                            "Id": str(number),
                            "ReceiptHandle": receipt,
                            "VisibilityTimeout": seconds,
                        }
                        for number, receipt in enumerate(receipts)
                    ],
                )
            )
            return refusals(answer.get("Failed", []))

        return await repeated(hide, receipts)

    async def depth(self, queue: str) -> int:
        url = await self.found(queue)
        answer = await self.link.call(
            lambda sqs: sqs.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
            )
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    async def purge(self, queue: str) -> None:
        url = await self.found(queue)
        try:
            await self.link.call(lambda sqs: sqs.purge_queue(QueueUrl=url))
        except Purging:
            await self.empty(queue)

    async def empty(self, queue: str) -> None:
        """Takes out what is there; SQS's own way can be gone once a minute."""
        while messages := await self.receive(queue, BATCH_MAX, 0, self.link.threads):
            await self.delete(queue, [message.get("ReceiptHandle", "") for message in messages])

    async def made(self, queue: str) -> str:
        """Its URL, for which it is made unless it is there."""
        try:
            return await self.found(queue)
        except NoQueue:
            self.urls[queue] = url = await self.make(queue)
            return url

    async def found(self, queue: str) -> str:
        """Its URL. Raises `NoQueue`."""
        if queue not in self.urls:
            self.urls[queue] = await self.asked(queue)
        return self.urls[queue]

    async def asked(self, queue: str) -> str:
        """Its URL, of SQS itself. Raises `NoQueue`."""
        name = self.link.place.spelled(queue)
        return (await self.link.call(lambda sqs: sqs.get_queue_url(QueueName=name)))["QueueUrl"]

    async def make(self, queue: str) -> str:
        """A queue that is there with attributes of its own keeps them."""
        name, attributes = self.link.place.spelled(queue), await self.attributes(queue)
        try:
            answer = await self.link.call(
                lambda sqs: sqs.create_queue(QueueName=name, Attributes=attributes)
            )
        except Exists:
            return await self.found(queue)
        return answer["QueueUrl"]

    async def attributes(self, queue: str) -> "dict[QueueAttributeNameType, str]":
        place = self.link.place
        attributes: dict[QueueAttributeNameType, str] = {
            "VisibilityTimeout": str(place.visibility),
            "ReceiveMessageWaitTimeSeconds": str(place.wait),
            "MessageRetentionPeriod": str(place.retention),
        }
        if queue == DEAD:
            return {**attributes, "MessageRetentionPeriod": DEAD_RETENTION}
        policy = {"deadLetterTargetArn": await self.dead(), "maxReceiveCount": place.receives}
        return {**attributes, "RedrivePolicy": json.dumps(policy)}

    async def dead(self) -> str:
        """The name by which a redrive policy knows the queue of dead messages."""
        url = await self.made(DEAD)
        answer = await self.link.call(
            lambda sqs: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        )
        return answer["Attributes"]["QueueArn"]


def entry_of(entry: str, letter: Letter) -> "SendMessageBatchRequestEntryTypeDef":
    return {
        "Id": entry,
        "MessageBody": letter.body,
        "MessageAttributes": {
            name: {"DataType": TYPE, "StringValue": value}
            for name, value in letter.attributes.items()
        },
    }
