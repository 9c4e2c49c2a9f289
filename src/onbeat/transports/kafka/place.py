"""Where Kafka is and how it is used, as the URL says."""

import re
from typing import Final
from urllib.parse import quote

import msgspec

from onbeat.transports.naming import spelled
from onbeat.transports.query import Query

FORM: Final = "kafka://HOST:PORT,HOST:PORT, with options like ?group=onbeat"
SERVER_FORM: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit on the name of a topic
# Kafka takes `.` and `_` for the same in its metrics, so `_` stands nowhere alone.
SWAPS: Final = {".": ".", "-": "--", "_": "-_"}

GROUP_DEFAULT: Final = "onbeat"
PARTITIONS_DEFAULT: Final = 12  # as many inboxes of one queue can work at once
PARTITIONS_MAX: Final = 1_000
REPLICATION_MAX: Final = 10
TIMEOUT_DEFAULT: Final = 10
TIMEOUT_MIN: Final = 2  # librdkafka wants its connections to outlast a fetch by a second
TIMEOUT_MAX: Final = 60
BYTES_DEFAULT: Final = 1_000_000  # librdkafka's own, a little below what brokers take
BYTES_MIN: Final = 1_000
BYTES_MAX: Final = 100_000_000

# What librdkafka may be told by its own names, by both of its clients and by one of them.
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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`timeout` is in seconds. `partitions` of a new topic; 0 leaves making topics to the broker.
    `replication` of a new topic; 0 leaves it to the broker. `bytes_max` of a message with all that
    goes with it.
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
        """The name that `queue` has in Kafka."""
        name = spelled(queue, swaps=SWAPS, mark="-", room=TOPIC_CHARS_MAX - 1)
        return name + "-" if name in {".", ".."} else name

    def group_of(self, topic: str) -> str:
        """A group for each topic: who comes and goes at one does not disturb the others."""
        return f"{self.group}.{topic}"


def read_place(url: str) -> Place:
    """Raises `Misconfigured`."""
    scheme, _, rest = url.partition("://")
    servers, _, options = rest.partition("?")
    query = Query(options, "Kafka")
    if scheme != "kafka":
        query.refuse(f"it is {FORM}")
    place = Place(
        url=f"kafka://{servers}",
        servers=servers_of(query, servers.rstrip("/")),
        group=query.text("group", GROUP_DEFAULT),
        partitions=query.whole("partitions", PARTITIONS_DEFAULT, 0, PARTITIONS_MAX),
        replication=query.whole("replication", 0, 0, REPLICATION_MAX),
        timeout=query.whole("timeout", TIMEOUT_DEFAULT, TIMEOUT_MIN, TIMEOUT_MAX),
        bytes_max=query.whole("message.max.bytes", BYTES_DEFAULT, BYTES_MIN, BYTES_MAX),
        shared=query.named(SHARED),
        producing=query.named(PRODUCING),
        consuming=query.named(CONSUMING),
    )
    query.end()
    if not place.group:
        query.refuse("group is the name that all workers of one system share")
    group = "" if place.group == GROUP_DEFAULT else f"?group={quote(place.group)}"
    return msgspec.structs.replace(place, url=f"kafka://{place.servers}{group}")


def servers_of(query: Query, servers: str) -> str:
    if "@" in servers:
        query.refuse("it takes no user; give sasl.username and sasl.password as options")
    if not all(SERVER_FORM.fullmatch(server) for server in servers.split(",")):
        query.refuse(f"it is {FORM}")
    return servers
