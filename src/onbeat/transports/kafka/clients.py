"""Clients of librdkafka, within bounds."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from onbeat.model.errors import Misconfigured
from onbeat.transports.kafka.faults import error_of
from onbeat.transports.kafka.place import Place

# Its own lines would come twenty times a second while a broker is away; we say so once.
LOG_CRITICAL: Final = 2
RECONNECT_MS: Final = 250
RECONNECT_MS_MAX: Final = 2_000
LINGER_MS: Final = 1  # a publish is one lot already
WAITING_KBYTES_MAX: Final = 65_536  # published and not yet confirmed
FETCHED_KBYTES_MAX: Final = 16_384  # fetched and not yet received, of one partition
FETCHED_MIN: Final = 1_000
SESSION_MS: Final = 15_000  # as a worker's lease: who is silent for longer is given up
HEARTBEAT_MS: Final = 1_000

SPECS: Final = cast("Any", confluent_kafka.admin).OffsetSpec  # which is not exported
EARLIEST: Final = SPECS.earliest()
LATEST: Final = SPECS.latest()

OnError = Callable[[Any], None]
Client = TypeVar("Client")


def producer(place: Place, on_error: OnError) -> Producer:
    """Raises `Misconfigured`, as do the others."""
    settings = shared(place) | {
        "acks": "all",
        "enable.idempotence": True,
        "error_cb": on_error,
        "linger.ms": LINGER_MS,
        "message.timeout.ms": place.timeout * 1_000,
        # What clients in other languages do, so a key is on the same partition for all.
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": WAITING_KBYTES_MAX,
    }
    return made(Producer, settings, place.producing)


def consumer(
    place: Place, topic: str, on_error: OnError, on_commit: Callable[[Any, Any], None] | None = None
) -> Consumer:
    settings = shared(place) | {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "error_cb": on_error,
        "group.id": place.group_of(topic),
        "heartbeat.interval.ms": HEARTBEAT_MS,
        # A partition that stays where it is keeps what was handed out of it.
        "partition.assignment.strategy": "cooperative-sticky",
        "queued.max.messages.kbytes": FETCHED_KBYTES_MAX,
        "queued.min.messages": FETCHED_MIN,
        "session.timeout.ms": SESSION_MS,
    }
    noting = {} if on_commit is None else {"on_commit": on_commit}
    return made(Consumer, settings | noting, place.consuming)


def admin(place: Place) -> AdminClient:
    return made(AdminClient, shared(place), {})


def shared(place: Place) -> dict[str, Any]:
    milliseconds = place.timeout * 1_000
    return {
        "bootstrap.servers": place.servers,
        "client.id": "onbeat",
        "log_level": LOG_CRITICAL,
        "message.max.bytes": place.bytes_max,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "reconnect.backoff.ms": RECONNECT_MS,
        "socket.connection.setup.timeout.ms": milliseconds,
        "socket.timeout.ms": milliseconds,
    } | place.shared


def made(
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
