"""Translates Kafka's errors."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from onbeat.model.errors import Unavailable

UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001  so named by librdkafka
)
TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE})
GROUP_LIVES: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001  as above
        KafkaError._SSL,  # noqa: SLF001  as above
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


class GroupIsActive(Unavailable):
    """The group has active consumers, and only they may commit its offsets."""


class UnknownTopic(Unavailable):
    """The topic does not exist."""


class AlreadyExists(Unavailable):
    """The topic already exists."""


def error_of(raised: KafkaException) -> KafkaError:
    error = raised.args[0]
    assert isinstance(error, KafkaError)
    return error


def unavailable(error: KafkaError, url: str) -> Unavailable:
    return kind_of(error)(f"Kafka {url}: {remedy(error)} ({error.str()})")


def kind_of(error: KafkaError) -> type[Unavailable]:
    if error.code() in GROUP_LIVES:
        return GroupIsActive
    if error.code() in UNKNOWN_TOPIC:
        return UnknownTopic
    return AlreadyExists if error.code() == KafkaError.TOPIC_ALREADY_EXISTS else Unavailable


def remedy(error: KafkaError) -> str:
    if error.code() in UNKNOWN_TOPIC:
        return "it has no such topic; make it, or let partitions say how many a new one gets"
    if error.code() in REFUSED:
        return "it refused the user; check the credentials and their rights"
    return "the request failed; try again"
