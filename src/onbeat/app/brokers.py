"""Opens brokers by URL, and connects operations to the broker between roles."""

import contextlib
from collections.abc import Generator
from datetime import timedelta
from typing import Final

from onbeat.engine.broker.dead_letters import DeadLetterPublisher
from onbeat.engine.broker.remote import RemoteTasks
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.model.errors import Malformed, Misconfigured
from onbeat.model.principal import BROKER
from onbeat.model.trace_context import HEADER as TRACE_HEADER
from onbeat.model.trace_context import read_traceparent
from onbeat.operations.context import OperationContext
from onbeat.operations.encryption import decrypted_job
from onbeat.operations.event_messages import receive
from onbeat.operations.fence import fence_of
from onbeat.operations.results import settle_result
from onbeat.operations.submissions import Origin, add_dead_letter, submit
from onbeat.ports.transport import Broker, Delivery
from onbeat.telemetry.structured_log import Log
from onbeat.wire.broker_messages import SUBMIT, TOKEN_HEADER

lines: Final = Log("onbeat.broker")

EXTRAS: Final = {
    "aio_pika": "rabbitmq",
    "aiormq": "rabbitmq",
    "redis": "redis",
    "boto3": "sqs",
    "botocore": "sqs",
    "confluent_kafka": "kafka",
}


def open_broker(url: str) -> Broker:
    """The broker for a URL, not connected yet. Drivers are imported on demand.

    Raises `Misconfigured` for an unknown URL scheme, or without the driver.
    """
    scheme = url.partition(":")[0].lower()
    with require_driver():
        if scheme in {"amqp", "amqps"}:
            from onbeat.transports.amqp.broker import RabbitMqBroker  # noqa: PLC0415

            return RabbitMqBroker(url)
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
def require_driver() -> Generator[None, None, None]:
    """Raises `Misconfigured`, naming the extra to install, where the driver is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        raise Misconfigured(
            f"this broker needs {error.name}; run: pip install 'onbeat[{extra}]'", "transport"
        ) from error


def note_ignored_trace(delivery: Delivery) -> None:
    text = delivery.headers.get(TRACE_HEADER)
    if text is not None and read_traceparent(text) is None:
        lines.debug("message.traceparent_ignored", id=delivery.id, source=SUBMIT)


def build_broker_setup(
    broker: Broker, context: OperationContext, remote: RemoteTasks, remote_lease: timedelta
) -> BrokerSetup:
    """Connect the broker's messages to the same operations as HTTP requests."""
    context = context.acting_for(BROKER)

    async def submit_delivery(delivery: Delivery) -> bytes | None:
        note_ignored_trace(delivery)
        return await submit(
            context,
            delivery.body,
            source=SUBMIT,
            key=delivery.id or None,
            headers=delivery.headers,
        )

    async def receive_event(delivery: Delivery) -> None:
        await receive(context, delivery.body, key=delivery.id or None, headers=delivery.headers)

    async def settle_delivery(delivery: Delivery) -> None:
        await settle_result(
            context,
            delivery.body,
            token=delivery.headers.get(TOKEN_HEADER),
            headers=delivery.headers,
        )

    async def dead_letter_delivery(source: str, delivery: Delivery, reason: str) -> None:
        origin = Origin(source=source, key=delivery.id or None, headers=delivery.headers)
        await add_dead_letter(context, delivery.body, origin, Malformed(reason))

    return BrokerSetup(
        broker=broker,
        remote=remote,
        remote_lease=remote_lease,
        submit=submit_delivery,
        results=settle_delivery,
        events=receive_event,
        fence=lambda: fence_of(context.store),
        decrypt=lambda job: decrypted_job(context.cipher, job),
        add_dead_letter=dead_letter_delivery,
        dead_letters=DeadLetterPublisher(broker),
    )
