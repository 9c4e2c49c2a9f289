import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Misconfigured
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.transports.kafka.broker import KafkaBroker
from onbeat.transports.kafka.config import parse_url


def test_a_url_of_a_server_is_enough() -> None:
    config = parse_url("kafka://broker.example:9092")
    assert (config.servers, config.group) == ("broker.example:9092", "onbeat")
    assert (config.partitions, config.replication, config.timeout) == (12, 0, 10)
    assert config.url == "kafka://broker.example:9092"


def test_options_stand_in_the_url() -> None:
    config = parse_url(
        "kafka://a:9092,b:9092,[::1]:9092/?group=night%20shift&partitions=3&replication=2&timeout=5"
        "&message.max.bytes=2000000&security.protocol=SASL_SSL&sasl.mechanism=SCRAM-SHA-256"
        "&sasl.username=onbeat&sasl.password=hush%26%2B&linger.ms=5&session.timeout.ms=6000"
    )
    assert config.servers == "a:9092,b:9092,[::1]:9092"
    assert (config.group, config.partitions, config.replication) == ("night shift", 3, 2)
    assert (config.timeout, config.bytes_max) == (5, 2_000_000)
    assert config.shared["sasl.password"] == "hush&+"
    assert config.producing == {"linger.ms": "5"}
    assert config.consuming == {"session.timeout.ms": "6000"}
    assert config.url == "kafka://a:9092,b:9092,[::1]:9092?group=night%20shift"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("kafka://", "it is kafka://HOST:PORT"),
        ("kafka:///?group=x", "it is kafka://HOST:PORT"),
        ("kafka://a b:9092", "it is kafka://HOST:PORT"),
        ("kafka://a:9092,", "it is kafka://HOST:PORT"),
        ("kafka://a:9092/topic", "it is kafka://HOST:PORT"),
        ("http://a:9092", "it is kafka://HOST:PORT"),
        ("kafka://a?partitions=-1", "partitions is a whole number from 0 to 1000"),
        ("kafka://a?timeout=1", "timeout is a whole number from 2 to 60"),
        ("kafka://a?group=", "group is the name"),
        ("kafka://a?group=x&group=y", "is given twice"),
        ("kafka://a?bootstrap.servers=b", "unknown option bootstrap.servers; allowed are broker"),
        ("kafka://a?plugin.library.paths=/tmp/x", "unknown option plugin.library.paths"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(url: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason) as caught:
        parse_url(url)
    assert caught.value.key == "transport"


@pytest.mark.parametrize(
    "url",
    [
        "kafka://onbeat:hush@a:9092",
        "kafka://a?sasl.password=hush&nonsense=1",
        "kafka://a?sasl.pasword=hush",
        "kafka://a?timeout=hush",
        "kafka://a?ssl.key.password=hush&group=",
    ],
)
def test_a_refusal_repeats_no_secret(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse_url(url)
    assert "hush" not in str(caught.value)


def test_the_url_that_is_shown_has_no_secret() -> None:
    secrets = "sasl.password=hush&ssl.key.password=hush&sasl.oauthbearer.client.secret=hush"
    assert KafkaBroker(f"kafka://a:9092?{secrets}").url == "kafka://a:9092"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("security.protocol=nonsense", "security.protocol"),
        ("security.protocol=ssl&ssl.ca.location=/none/at/all", "ssl.ca.location"),
        ("session.timeout.ms=soon", "session.timeout.ms"),
        ("linger.ms=never", "linger.ms"),
        ("compression.type=tar", "compression.type"),
    ],
)
async def test_what_librdkafka_refuses_is_a_setting_at_fault(options: str, reason: str) -> None:
    broker = KafkaBroker(f"kafka://127.0.0.1:9?sasl.password=hush&{options}")
    with pytest.raises(Misconfigured, match=reason) as caught:
        await broker.open()
    assert "hush" not in str(caught.value)
    await broker.close()


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("onbeat.work.default", "onbeat.work.default"),
        ("onbeat.work.high-priority", "onbeat.work.high--priority"),
        ("onbeat.work.high_priority", "onbeat.work.high-_priority"),
        ("onbeat.work.a/b", "onbeat.work.a-x2f-b"),
        (".", ".-"),
        ("..", "..-"),
    ],
)
def test_names_are_spelled_in_one_fixed_way(queue: str, topic: str) -> None:
    assert parse_url("kafka://a").topic(queue) == topic


names = st.text(st.sampled_from("ab.-_/ x2fh1ö"), min_size=1, max_size=8)


@given(names, names)
def test_different_names_are_spelled_differently_even_to_kafkas_metrics(
    one: str, other: str
) -> None:
    config = parse_url("kafka://a")
    metrics = [config.topic(name).replace("_", ".") for name in (one, other)]
    assert (metrics[0] == metrics[1]) == (one == other)


@given(st.text(min_size=1, max_size=NAME_CHARS_MAX))
def test_names_are_what_kafka_allows(queue: str) -> None:
    topic = parse_url("kafka://a").topic(queue)
    assert 0 < len(topic) <= 249
    assert topic not in {".", ".."}
    assert topic.isascii()
    assert all(char.isalnum() or char in "._-" for char in topic)
