"""Creates clients of librdkafka with limited buffers."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from onbeat.model.broker_options import (
    KAFKA_CONSUMING,
    KAFKA_PRODUCING,
    KAFKA_SHARED,
    default_texts,
)
from onbeat.model.errors import Misconfigured
from onbeat.transports.kafka.config import KafkaConfig
from onbeat.transports.kafka.errors import error_of

# librdkafka logs 20 lines per second while a broker is unavailable; we log it once.
LOG_CRITICAL: Final = 2
RECONNECT_MS: Final = 250
RECONNECT_MS_MAX: Final = 2_000
WAITING_KBYTES_MAX: Final = 65_536  # published and not yet confirmed
FETCHED_KBYTES_MAX: Final = 16_384  # fetched and not yet received, per partition
FETCHED_MIN: Final = 1_000

SPECS: Final = cast("Any", confluent_kafka.admin).OffsetSpec  # not exported
EARLIEST: Final = SPECS.earliest()
LATEST: Final = SPECS.latest()

OnError = Callable[[Any], None]
Client = TypeVar("Client")


def producer(config: KafkaConfig, on_error: OnError) -> Producer:
    """Raises `Misconfigured`, as do the other functions here."""
    settings = common_settings(config) | {
        **default_texts(KAFKA_PRODUCING),
        "acks": "all",
        "enable.idempotence": True,
        "error_cb": on_error,
        "message.timeout.ms": config.timeout * 1_000,
        # The default of clients in other languages, so that a key always has the same partition.
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": WAITING_KBYTES_MAX,
    }
    return make_client(Producer, settings, config.producing)


def consumer(
    config: KafkaConfig,
    topic: str,
    on_error: OnError,
    on_commit: Callable[[Any, Any], None] | None = None,
) -> Consumer:
    settings = common_settings(config) | {
        **default_texts(KAFKA_CONSUMING),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "error_cb": on_error,
        "group.id": config.group_of(topic),
        # A partition that stays assigned keeps the messages that were handed out.
        "partition.assignment.strategy": "cooperative-sticky",
        "queued.max.messages.kbytes": FETCHED_KBYTES_MAX,
        "queued.min.messages": FETCHED_MIN,
    }
    noting = {} if on_commit is None else {"on_commit": on_commit}
    return make_client(Consumer, settings | noting, config.consuming)


def admin(config: KafkaConfig) -> AdminClient:
    return make_client(AdminClient, common_settings(config), {})


def common_settings(config: KafkaConfig) -> dict[str, Any]:
    milliseconds = config.timeout * 1_000
    return {
        **default_texts(KAFKA_SHARED),
        "bootstrap.servers": config.servers,
        "log_level": LOG_CRITICAL,
        "message.max.bytes": config.bytes_max,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "reconnect.backoff.ms": RECONNECT_MS,
        "socket.connection.setup.timeout.ms": milliseconds,
        "socket.timeout.ms": milliseconds,
    } | config.shared


def make_client(
    kind: Callable[[dict[str, Any]], Client], settings: dict[str, Any], given: dict[str, str]
) -> Client:
    try:
        return kind(settings | given)
    except KafkaException as error:
        raise Misconfigured(
            f"the URL of Kafka: librdkafka refused one of {', '.join({**given, **settings})}:"
            f" {error_of(error).str()}",
            key="transport",
        ) from error
