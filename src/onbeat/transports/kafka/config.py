"""Parses the URL of a Kafka broker."""

import re
from typing import Final
from urllib.parse import quote

import msgspec

from onbeat.model.broker_options import KAFKA, KAFKA_CONSUMING, KAFKA_PRODUCING, KAFKA_SHARED
from onbeat.transports.queue_names import encode_name
from onbeat.transports.url_options import UrlOptions

FORM: Final = f"{KAFKA.form}, with options like ?group=onbeat"
SERVER_FORM: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit on the name of a topic
# Kafka's metrics do not distinguish `.` and `_`, so `_` is never used alone.
SWAPS: Final = {".": ".", "-": "--", "_": "-_"}


class KafkaConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`timeout` is in seconds; `bytes_max` limits a message with its overhead.

    `partitions` of a new topic: 0 leaves the creation of topics to the broker. `replication` of a
    new topic: 0 leaves it to the broker.
    """

    url: str
    servers: str
    group: str
    partitions: int
    replication: int
    timeout: int
    bytes_max: int
    shared: dict[str, str]
    producing: dict[str, str]
    consuming: dict[str, str]

    def topic(self, queue: str) -> str:
        """The name of the topic for `queue`."""
        name = encode_name(queue, swaps=SWAPS, mark="-", room=TOPIC_CHARS_MAX - 1)
        return name + "-" if name in {".", ".."} else name

    def group_of(self, topic: str) -> str:
        """One group for each topic, so that a rebalance of one topic does not affect others."""
        return f"{self.group}.{topic}"


def parse_url(url: str) -> KafkaConfig:
    """Raises `Misconfigured`."""
    scheme, _, rest = url.partition("://")
    servers, _, options = rest.partition("?")
    query = UrlOptions(options, KAFKA)
    if scheme != "kafka":
        query.refuse(f"it is {FORM}")
    config = KafkaConfig(
        url=f"kafka://{servers}",
        servers=servers_of(query, servers.rstrip("/")),
        group=query.text("group"),
        partitions=query.whole_number("partitions"),
        replication=query.whole_number("replication"),
        timeout=query.whole_number("timeout"),
        bytes_max=query.whole_number("message.max.bytes"),
        shared=query.take_all(one.name for one in KAFKA_SHARED),
        producing=query.take_all(one.name for one in KAFKA_PRODUCING),
        consuming=query.take_all(one.name for one in KAFKA_CONSUMING),
    )
    query.refuse_unknown()
    if not config.group:
        query.refuse("group is the name that all workers of one system share")
    group = "" if config.group == query.option("group").default else f"?group={quote(config.group)}"
    return msgspec.structs.replace(config, url=f"kafka://{config.servers}{group}")


def servers_of(query: UrlOptions, servers: str) -> str:
    if "@" in servers:
        query.refuse("it takes no user; give sasl.username and sasl.password as options")
    if not all(SERVER_FORM.fullmatch(server) for server in servers.split(",")):
        query.refuse(f"it is {FORM}")
    return servers
