"""Parses the URL of a Kafka broker."""

import re
from typing import Final
from urllib.parse import quote

import msgspec

from onbeat.transports.queue_names import encode_name
from onbeat.transports.url_options import UrlOptions

FORM: Final = "kafka://HOST:PORT,HOST:PORT, with options like ?group=onbeat"
SERVER_FORM: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit on the name of a topic
# Kafka's metrics do not distinguish `.` and `_`, so `_` is never used alone.
SWAPS: Final = {".": ".", "-": "--", "_": "-_"}

GROUP_DEFAULT: Final = "onbeat"
PARTITIONS_DEFAULT: Final = 12  # how many consumers of one queue can work at once
PARTITIONS_MAX: Final = 1_000
REPLICATION_MAX: Final = 10
TIMEOUT_DEFAULT: Final = 10
TIMEOUT_MIN: Final = 2  # librdkafka needs connections to outlast a fetch by a second
TIMEOUT_MAX: Final = 60
BYTES_DEFAULT: Final = 1_000_000  # librdkafka's default, slightly below the limit of brokers
BYTES_MIN: Final = 1_000
BYTES_MAX: Final = 100_000_000

# The options of librdkafka that a URL may set, for both of its clients and for one of them.
SHARED: Final = (
    "broker.address.family",
    "client.id",
    "client.rack",
    "enable.ssl.certificate.verification",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
)
PRODUCING: Final = ("compression.type", "linger.ms")
CONSUMING: Final = ("fetch.wait.max.ms", "heartbeat.interval.ms", "session.timeout.ms")


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
    query = UrlOptions(options, "Kafka")
    if scheme != "kafka":
        query.refuse(f"it is {FORM}")
    config = KafkaConfig(
        url=f"kafka://{servers}",
        servers=servers_of(query, servers.rstrip("/")),
        group=query.text("group", GROUP_DEFAULT),
        partitions=query.whole_number("partitions", PARTITIONS_DEFAULT, 0, PARTITIONS_MAX),
        replication=query.whole_number("replication", 0, 0, REPLICATION_MAX),
        timeout=query.whole_number("timeout", TIMEOUT_DEFAULT, TIMEOUT_MIN, TIMEOUT_MAX),
        bytes_max=query.whole_number("message.max.bytes", BYTES_DEFAULT, BYTES_MIN, BYTES_MAX),
        shared=query.take_all(SHARED),
        producing=query.take_all(PRODUCING),
        consuming=query.take_all(CONSUMING),
    )
    query.refuse_unknown()
    if not config.group:
        query.refuse("group is the name that all workers of one system share")
    group = "" if config.group == GROUP_DEFAULT else f"?group={quote(config.group)}"
    return msgspec.structs.replace(config, url=f"kafka://{config.servers}{group}")


def servers_of(query: UrlOptions, servers: str) -> str:
    if "@" in servers:
        query.refuse("it takes no user; give sasl.username and sasl.password as options")
    if not all(SERVER_FORM.fullmatch(server) for server in servers.split(",")):
        query.refuse(f"it is {FORM}")
    return servers
