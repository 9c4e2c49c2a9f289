import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Misconfigured
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.transports.kafka.broker import KafkaBroker
from onbeat.transports.kafka.place import read_place


def test_a_url_of_a_server_is_enough():
    place = read_place("kafka://broker.example:9092")
    assert (place.servers, place.group) == ("broker.example:9092", "onbeat")
    assert (place.partitions, place.replication, place.timeout) == (12, 0, 10)
    assert place.url == "kafka://broker.example:9092"


def test_options_stand_in_the_url():
    place = read_place(
        "kafka://a:9092,b:9092,[::1]:9092/?group=night%20shift&partitions=3&replication=2&timeout=5"
        "&message.max.bytes=2000000&security.protocol=SASL_SSL&sasl.mechanism=SCRAM-SHA-256"
        "&sasl.username=onbeat&sasl.password=hush%26%2B&linger.ms=5&session.timeout.ms=6000"
    )
    assert place.servers == "a:9092,b:9092,[::1]:9092"
    assert (place.group, place.partitions, place.replication) == ("night shift", 3, 2)
    assert (place.timeout, place.bytes_max) == (5, 2_000_000)
    assert place.shared["sasl.password"] == "hush&+"
    assert place.producing == {"linger.ms": "5"}
    assert place.consuming == {"session.timeout.ms": "6000"}
    assert place.url == "kafka://a:9092,b:9092,[::1]:9092?group=night%20shift"


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
        ("kafka://a?group=x&group=y", "stands there twice"),
        ("kafka://a?bootstrap.servers=b", "it knows no option bootstrap.servers; it knows broker"),
        ("kafka://a?plugin.library.paths=/tmp/x", "it knows no option plugin.library.paths"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(url, reason):
    with pytest.raises(Misconfigured, match=reason) as caught:
        read_place(url)
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
def test_a_refusal_repeats_no_secret(url):
    with pytest.raises(Misconfigured) as caught:
        read_place(url)
    assert "hush" not in str(caught.value)


def test_the_url_that_is_shown_has_no_secret():
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
async def test_what_librdkafka_refuses_is_a_setting_at_fault(options, reason):
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
def test_names_are_spelled_in_one_fixed_way(queue, topic):
    assert read_place("kafka://a").topic(queue) == topic


names = st.text(st.sampled_from("ab.-_/ x2fh1ö"), min_size=1, max_size=8)


@given(names, names)
def test_different_names_are_spelled_differently_even_to_kafkas_metrics(one, other):
    place = read_place("kafka://a")
    metrics = [place.topic(name).replace("_", ".") for name in (one, other)]
    assert (metrics[0] == metrics[1]) == (one == other)


@given(st.text(min_size=1, max_size=NAME_CHARS_MAX))
def test_names_are_what_kafka_allows(queue):
    topic = read_place("kafka://a").topic(queue)
    assert 0 < len(topic) <= 249
    assert topic not in {".", ".."}
    assert topic.isascii()
    assert all(char.isalnum() or char in "._-" for char in topic)
