"""Brokers by their URLs, and what this program does with what comes over the one between roles."""

import contextlib
from collections.abc import Generator
from datetime import timedelta
from typing import Final

from onbeat.engine.brokered import Brokerage
from onbeat.engine.dead import DeadPost
from onbeat.engine.remote import RemoteTasks
from onbeat.model.errors import Malformed, Misconfigured
from onbeat.operations.operator import Operator
from onbeat.operations.settling import settle_result
from onbeat.operations.submitting import Origin, bury, submit
from onbeat.ports.transport import Broker, Delivery
from onbeat.wire.work import SUBMIT, TOKEN_HEADER

EXTRAS: Final = {
    "aio_pika": "rabbitmq",
    "aiormq": "rabbitmq",
    "redis": "redis",
    "boto3": "sqs",
    "botocore": "sqs",
    "confluent_kafka": "kafka",
}


def open_broker(url: str) -> Broker:
    """The broker that a URL names, not connected yet. Drivers are imported when they are named.

    Raises `Misconfigured` for a URL that no broker here answers to, or without its driver.
    """
    scheme = url.partition(":")[0].lower()
    with driver_wanted():
        if scheme in {"amqp", "amqps"}:
            from onbeat.transports.amqp.broker import AmqpBroker  # noqa: PLC0415

            return AmqpBroker(url)
        if scheme in {"redis", "rediss", "redis+unix", "unix"}:
            from onbeat.transports.redis.broker import RedisBroker  # noqa: PLC0415

            return RedisBroker(url)
        if scheme == "sqs":
            from onbeat.transports.sqs.broker import SqsBroker  # noqa: PLC0415

            return SqsBroker(url)
        if scheme == "kafka":
            from onbeat.transports.kafka.broker import KafkaBroker  # noqa: PLC0415

            return KafkaBroker(url)
        if scheme == "memory":
            from onbeat.transports.memory_broker import MemoryBroker  # noqa: PLC0415

            return MemoryBroker(url)
    raise Misconfigured(
        f"{scheme!r} is not a broker that this version knows: amqp://, redis://, sqs://, "
        "kafka://, or memory://NAME within one process",
        "transport",
    )


@contextlib.contextmanager
def driver_wanted() -> Generator[None, None, None]:
    """Raises `Misconfigured`, naming the extra to install, where the driver is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise Misconfigured(
            f"this broker needs {error.name}; run: pip install 'onbeat[{extra}]'", "transport"
        ) from error


def brokerage(
    broker: Broker, operator: Operator, remote: RemoteTasks, remote_lease: timedelta
) -> Brokerage:
    """What comes over the broker is done by the operations that HTTP calls, too."""

    async def submitted(delivery: Delivery) -> bytes | None:
        return await submit(
            operator,
            delivery.body,
            source=SUBMIT,
            key=delivery.id or None,
            headers=delivery.headers,
        )

    async def settled(delivery: Delivery) -> None:
        token = delivery.headers.get(TOKEN_HEADER, "")
        await settle_result(
            operator,
            delivery.body,
            token=int(token) if token.isdecimal() else None,
            headers=delivery.headers,
        )

    async def buried(source: str, delivery: Delivery, reason: str) -> None:
        origin = Origin(source=source, key=delivery.id or None, headers=delivery.headers)
        await bury(operator, delivery.body, origin, Malformed(reason))

    return Brokerage(
        broker=broker,
        remote=remote,
        remote_lease=remote_lease,
        submit=submitted,
        results=settled,
        bury=buried,
        dead=DeadPost(broker),
    )
