"""Operations on SQS queues by name; queues are created on first use."""

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final

from onbeat.model.errors import Unavailable
from onbeat.transports.sqs.batch_retry import FailedEntry, failed_entries, retry_failed
from onbeat.transports.sqs.connection import Connection
from onbeat.transports.sqs.errors import AlreadyExists, NoQueue, Purging
from onbeat.transports.sqs.messages import BATCH_MAX, TYPE, OutgoingMessage

if TYPE_CHECKING:  # the package of types is installed for type checkers only
    from types_boto3_sqs.client import SQSClient
    from types_boto3_sqs.literals import QueueAttributeNameType
    from types_boto3_sqs.type_defs import MessageTypeDef, SendMessageBatchRequestEntryTypeDef

# The queue for messages received too often, and for Onbeat's own dead letters.
DEAD: Final = "onbeat.dead"
DEAD_RETENTION: Final = "1209600"  # SQS's own limit, to give operators the most time


class SqsQueues:
    """Every method raises `Unavailable`, and `NoQueue` if it does not create the queue."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.urls: dict[str, str] = {}

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> None:
        """Sends up to ten messages. Raises `Unavailable` unless SQS accepts all of them."""
        if refused := await retry_failed(partial(self.send_once, queue), messages):
            raise Unavailable(
                f"SQS {self.connection.config.url} did not take {len(refused)} of"
                f" {len(messages)} messages"
                f" ({refused[0][1].code})"
            )

    async def send_once(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[FailedEntry]:
        entries = [entry_of(str(number), message) for number, message in enumerate(messages)]

        async def send(url: str) -> list[FailedEntry]:
            answer = await self.connection.call(
                lambda sqs: sqs.send_message_batch(QueueUrl=url, Entries=entries)
            )
            return failed_entries(answer.get("Failed", []))

        try:
            return await send(await self.ensure_queue(queue))
        except NoQueue:  # the queue was deleted since
            self.urls.pop(queue, None)
            return await send(await self.ensure_queue(queue))

    async def receive(
        self, queue: str, limit: int, seconds: int, threads: Executor
    ) -> "Sequence[MessageTypeDef]":
        """Up to ten messages; SQS waits `seconds` for the first."""
        url = await self.ensure_queue(queue)
        visibility = self.connection.config.visibility

        def receive(sqs: "SQSClient") -> "Sequence[MessageTypeDef]":
            return sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=limit,
                WaitTimeSeconds=seconds,
                VisibilityTimeout=visibility,
                MessageAttributeNames=["All"],
            ).get("Messages", [])

        try:
            return await self.connection.poll(threads, receive, seconds)
        except NoQueue:  # the queue was deleted since
            self.urls.pop(queue, None)
            raise

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[tuple[str, FailedEntry]]:
        """Deletes up to ten messages."""
        url = await self.ensure_queue(queue)

        async def delete(receipts: Sequence[str]) -> list[FailedEntry]:
            answer = await self.connection.call(
                lambda sqs: sqs.delete_message_batch(
                    QueueUrl=url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": receipt}
                        for number, receipt in enumerate(receipts)
                    ],
                )
            )
            return failed_entries(answer.get("Failed", []))

        return await retry_failed(delete, receipts)

    async def hide(
        self, queue: str, seconds: int, receipts: Sequence[str]
    ) -> list[tuple[str, FailedEntry]]:
        """Hides up to ten messages for `seconds` from now; 0 gives them back at once."""
        url = await self.ensure_queue(queue)

        async def hide(receipts: Sequence[str]) -> list[FailedEntry]:
            answer = await self.connection.call(
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
            return failed_entries(answer.get("Failed", []))

        return await retry_failed(hide, receipts)

    async def depth(self, queue: str) -> int:
        url = await self.url_of(queue)
        answer = await self.connection.call(
            lambda sqs: sqs.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
            )
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    async def purge(self, queue: str) -> None:
        url = await self.url_of(queue)
        try:
            await self.connection.call(lambda sqs: sqs.purge_queue(QueueUrl=url))
        except Purging:
            await self.empty(queue)

    async def empty(self, queue: str) -> None:
        """Deletes the waiting messages; SQS allows a purge once a minute."""
        while messages := await self.receive(queue, BATCH_MAX, 0, self.connection.threads):
            await self.delete(queue, [message.get("ReceiptHandle", "") for message in messages])

    async def ensure_queue(self, queue: str) -> str:
        """The queue's URL; creates the queue unless it exists."""
        try:
            return await self.url_of(queue)
        except NoQueue:
            self.urls[queue] = url = await self.make(queue)
            return url

    async def url_of(self, queue: str) -> str:
        """The queue's URL, cached. Raises `NoQueue`."""
        if queue not in self.urls:
            self.urls[queue] = await self.fetch_url(queue)
        return self.urls[queue]

    async def fetch_url(self, queue: str) -> str:
        """The queue's URL from SQS. Raises `NoQueue`."""
        name = self.connection.config.queue_name(queue)
        return (await self.connection.call(lambda sqs: sqs.get_queue_url(QueueName=name)))[
            "QueueUrl"
        ]

    async def make(self, queue: str) -> str:
        """An existing queue with other attributes keeps them."""
        name, attributes = self.connection.config.queue_name(queue), await self.attributes(queue)
        try:
            answer = await self.connection.call(
                lambda sqs: sqs.create_queue(QueueName=name, Attributes=attributes)
            )
        except AlreadyExists:
            return await self.url_of(queue)
        return answer["QueueUrl"]

    async def attributes(self, queue: str) -> "dict[QueueAttributeNameType, str]":
        config = self.connection.config
        attributes: dict[QueueAttributeNameType, str] = {
            "VisibilityTimeout": str(config.visibility),
            "ReceiveMessageWaitTimeSeconds": str(config.wait),
            "MessageRetentionPeriod": str(config.retention),
        }
        if queue == DEAD:
            return {**attributes, "MessageRetentionPeriod": DEAD_RETENTION}
        policy = {"deadLetterTargetArn": await self.dead(), "maxReceiveCount": config.receives}
        return {**attributes, "RedrivePolicy": json.dumps(policy)}

    async def dead(self) -> str:
        """The ARN of the dead-letter queue, for redrive policies."""
        url = await self.ensure_queue(DEAD)
        answer = await self.connection.call(
            lambda sqs: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        )
        return answer["Attributes"]["QueueArn"]


def entry_of(entry: str, message: OutgoingMessage) -> "SendMessageBatchRequestEntryTypeDef":
    return {
        "Id": entry,
        "MessageBody": message.body,
        "MessageAttributes": {
            name: {"DataType": TYPE, "StringValue": value}
            for name, value in message.attributes.items()
        },
    }
