"""The options that the URL of a broker may have: one list for the parsers and the reference."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

SECONDS_MAX: Final = 3_600
OptionKind = Literal["text", "whole number", "seconds", "flag"]


class BrokerOption(msgspec.Struct, frozen=True, kw_only=True):
    """`default` is as in a URL; if it is empty, `unset` names what happens then.

    A whole number is from `low` to `high`; seconds may have a fraction, and are above 0, up to
    `high`.
    """

    name: str
    meaning: str
    kind: OptionKind = "text"
    default: str = ""
    unset: str = "none"
    low: int = 0
    high: int = SECONDS_MAX


class BrokerUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a broker, its extra, the form of its URLs, and what may follow their `?`."""

    broker: str
    extra: str
    form: str
    options: tuple[BrokerOption, ...]

    def option(self, name: str) -> BrokerOption:
        """Raises `KeyError` for a name that is not in the list."""
        for option in self.options:
            if option.name == name:
                return option
        raise KeyError(name)


def whole(name: str, default: int, low: int, high: int, meaning: str) -> BrokerOption:
    return BrokerOption(
        name=name,
        meaning=meaning,
        kind="whole number",
        default=str(default),
        low=low,
        high=high,
    )


def default_texts(options: Iterable[BrokerOption]) -> dict[str, str]:
    """The defaults of those that have one, by name."""
    return {option.name: option.default for option in options if option.default}


def text(name: str, meaning: str, default: str = "", unset: str = "none") -> BrokerOption:
    return BrokerOption(name=name, meaning=meaning, default=default, unset=unset)


def tls_options(scheme: str) -> tuple[BrokerOption, ...]:
    return (
        text(
            "cafile", f"with `{scheme}`: file with the trusted certificates", unset="the system's"
        ),
        text("certfile", f"with `{scheme}`: file with the client's certificate"),
        text("keyfile", f"with `{scheme}`: file with its private key"),
        BrokerOption(
            name="verify",
            kind="flag",
            default="true",
            meaning=f"with `{scheme}`: `false` trusts any certificate, for trials only",
        ),
    )


TIMEOUT: Final = BrokerOption(
    name="timeout",
    kind="seconds",
    default="10",
    meaning="longest wait for a connection, and for the confirmation of a publish",
)

RABBITMQ: Final = BrokerUrl(
    broker="RabbitMQ",
    extra="rabbitmq",
    form="amqp://USER:PASSWORD@HOST/VHOST",
    options=(
        text("prefix", "the name of every queue begins with it; at most 50 characters"),
        BrokerOption(
            name="quorum",
            kind="flag",
            default="false",
            meaning="new queues are quorum queues, which are replicated",
        ),
        TIMEOUT,
        whole("heartbeat", 10, 1, 600, "seconds between heartbeats of a connection"),
        text("name", "name of the connections in RabbitMQ", "onbeat"),
        *tls_options("amqps"),
    ),
)

REDIS: Final = BrokerUrl(
    broker="Redis",
    extra="redis",
    form="redis://USER:PASSWORD@HOST:PORT/DATABASE",
    options=(
        text("prefix", "every key begins with it"),
        TIMEOUT,
        BrokerOption(
            name="visibility",
            kind="seconds",
            default="60",
            meaning="a message that is not extended for so long goes to another consumer",
        ),
        whole("db", 0, 0, 10_000, "with `redis+unix:///PATH`: number of the database"),
        text("name", "name of the connections; up to 64 visible ASCII characters", "onbeat"),
        *tls_options("rediss"),
    ),
)

SQS: Final = BrokerUrl(
    broker="SQS",
    extra="sqs",
    form="sqs://REGION",
    options=(
        text("endpoint", "URL of a compatible service", unset="that of AWS"),
        text("prefix", "the name of every queue begins with it; up to 30 letters, digits, - and _"),
        # Four leases of a worker: it is extended long before.
        whole("visibility", 60, 1, 43_200, "seconds for which a received message is hidden"),
        whole("wait", 10, 1, 20, "longest poll, in seconds"),
        whole("receives", 10, 1, 1_000, "a message received this often goes to `onbeat.dead`"),
        # The store announces older jobs again.
        whole("retention", 86_400, 60, 1_209_600, "seconds for which a new queue keeps a message"),
        whole("timeout", 10, 1, 60, "longest wait for a call other than a poll, in seconds"),
    ),
)

# librdkafka's own names: for both of its clients, for producers and for consumers.
KAFKA_SHARED: Final = (
    text("broker.address.family", "`any`, `v4` or `v6`", unset="`any`"),
    text("client.id", "name of the client in Kafka's logs", "onbeat"),
    text("client.rack", "rack of this process, to read from a replica near it"),
    text("enable.ssl.certificate.verification", "`false` trusts any certificate", unset="`true`"),
    text("sasl.kerberos.keytab", "file with the keys for Kerberos"),
    text("sasl.kerberos.principal", "name of this client for Kerberos", unset="`kafkaclient`"),
    text("sasl.kerberos.service.name", "name that Kafka has for Kerberos", unset="`kafka`"),
    text("sasl.mechanism", "such as `SCRAM-SHA-512`, `PLAIN`, `OAUTHBEARER`", unset="`GSSAPI`"),
    text("sasl.mechanisms", "the same as `sasl.mechanism`", unset="`GSSAPI`"),
    text("sasl.oauthbearer.client.id", "name of this client for OAuth"),
    text("sasl.oauthbearer.client.secret", "secret of this client for OAuth"),
    text("sasl.oauthbearer.method", "`default` or `oidc`", unset="`default`"),
    text("sasl.oauthbearer.scope", "scope of the access token"),
    text("sasl.oauthbearer.token.endpoint.url", "where tokens are issued"),
    text("sasl.password", "password for PLAIN and SCRAM"),
    text("sasl.username", "user for PLAIN and SCRAM"),
    text(
        "security.protocol",
        "`plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`",
        unset="`plaintext`",
    ),
    text("ssl.ca.location", "file with the trusted certificates", unset="the system's"),
    text("ssl.certificate.location", "file with the client's certificate"),
    text("ssl.endpoint.identification.algorithm", "`https` or `none`", unset="`https`"),
    text("ssl.key.location", "file with the client's private key"),
    text("ssl.key.password", "password of that file"),
)
KAFKA_PRODUCING: Final = (
    text("compression.type", "`none`, `gzip`, `snappy`, `lz4` or `zstd`", unset="`none`"),
    # A publish is a batch already.
    text("linger.ms", "milliseconds for which a batch is collected", "1"),
)
KAFKA_CONSUMING: Final = (
    text("fetch.wait.max.ms", "longest wait of Kafka for messages, in milliseconds", unset="`500`"),
    text("heartbeat.interval.ms", "milliseconds between heartbeats in the group", "1000"),
    # As a worker's lease: a silent consumer loses its partitions.
    text("session.timeout.ms", "milliseconds until a silent consumer leaves", "15000"),
)

KAFKA: Final = BrokerUrl(
    broker="Kafka",
    extra="kafka",
    form="kafka://HOST:PORT,HOST:PORT",
    options=(
        text("group", "name that all workers of one system share", "onbeat"),
        whole(
            "partitions",
            12,  # how many consumers of one queue can work at once
            0,
            1_000,
            "partitions of a new topic; 0 leaves the creation of topics to Kafka",
        ),
        whole("replication", 0, 0, 10, "replicas of a new topic; 0 leaves it to Kafka"),
        # librdkafka needs connections to outlast a fetch by a second.
        whole("timeout", 10, 2, 60, "longest wait for a call, in seconds"),
        # librdkafka's default, slightly below the limit of brokers.
        whole("message.max.bytes", 1_000_000, 1_000, 100_000_000, "largest message"),
        *KAFKA_SHARED,
        *KAFKA_PRODUCING,
        *KAFKA_CONSUMING,
    ),
)
BROKER_URLS: Final = (RABBITMQ, REDIS, SQS, KAFKA)
