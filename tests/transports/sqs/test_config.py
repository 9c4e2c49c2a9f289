from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Misconfigured
from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.transports.sqs.config import parse_url


def test_a_url_of_a_region_is_enough() -> None:
    config = parse_url("sqs://eu-central-1")
    assert (config.region, config.endpoint, config.prefix) == ("eu-central-1", None, "")
    assert (config.visibility, config.wait, config.receives) == (60, 10, 10)
    assert (config.retention, config.timeout) == (86_400, 10)
    assert config.url == "sqs://eu-central-1"


def test_options_stand_in_the_url() -> None:
    config = parse_url(
        "sqs://us-east-1?endpoint=http://127.0.0.1:4566&prefix=prod-&visibility=120&wait=20"
        "&receives=3&retention=3600&timeout=5"
    )
    assert (config.endpoint, config.prefix) == ("http://127.0.0.1:4566", "prod-")
    assert (config.visibility, config.wait, config.receives) == (120, 20, 3)
    assert (config.retention, config.timeout) == (3_600, 5)
    assert config.url == "sqs://us-east-1?endpoint=http%3A%2F%2F127.0.0.1%3A4566&prefix=prod-"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqs://", "it is sqs://REGION"),
        ("sqs://eu-central-1/queue", "it is sqs://REGION"),
        ("sqs://Frankfurt!", "it is sqs://REGION"),
        ("sqs://eu-central-1?visibility=0", "visibility is a whole number from 1 to 43200"),
        ("sqs://eu-central-1?visibility=43201", "visibility is"),
        ("sqs://eu-central-1?visibility=1m", "visibility is"),
        ("sqs://eu-central-1?wait=21", "wait is a whole number from 1 to 20"),
        ("sqs://eu-central-1?retention=59", "retention is"),
        ("sqs://eu-central-1?prefix=a.b", "prefix is up to 30 letters"),
        ("sqs://eu-central-1?endpoint=localhost:4566", "endpoint is like http://"),
        ("sqs://eu-central-1?wait=1&wait=2", "is given twice"),
        ("sqs://eu-central-1?visiblity=60", "unknown option visiblity; allowed are endpoint,"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(url: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason) as caught:
        parse_url(url)
    assert caught.value.key == "transport"


@pytest.mark.parametrize(
    "url",
    [
        "sqs://AKIA1234:hush@eu-central-1",
        "sqs://eu-central-1?endpoint=http://AKIA1234:hush@127.0.0.1",
        "sqs://eu-central-1?secret=hush",
        "sqs://eu-central-1?wait=hush",
    ],
)
def test_a_refusal_repeats_no_secret(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse_url(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        ("onbeat.work.default", "onbeat-work-default"),
        ("onbeat.work.high-priority", "onbeat-work-high_-priority"),
        ("onbeat.work.high_priority", "onbeat-work-high__priority"),
        ("onbeat.work.a/b", "onbeat-work-a_x2f_b"),
        ("größe", "gr_xf6__xdf_e"),
    ],
)
def test_names_are_spelled_in_one_fixed_way(queue: str, name: str) -> None:
    assert parse_url("sqs://eu-central-1").queue_name(queue) == name
    assert parse_url("sqs://eu-central-1?prefix=prod-").queue_name(queue) == "prod-" + name


names = st.text(st.sampled_from("ab.-_/ x2fh1ö"), min_size=1, max_size=8)


@given(names, names)
def test_different_names_are_spelled_differently(any: Any, other: Any) -> None:
    config = parse_url("sqs://eu-central-1")
    assert (config.queue_name(any) == config.queue_name(other)) == (any == other)


@given(st.text(min_size=1, max_size=NAME_CHARS_MAX), st.sampled_from(["", "a" * 30]))
def test_names_are_what_sqs_allows(queue: Any, prefix: Any) -> None:
    name = parse_url(f"sqs://eu-central-1?prefix={prefix}").queue_name(queue)
    assert 0 < len(name) <= 80
    assert name.isascii()
    assert name.replace("-", "").replace("_", "").isalnum() or not name.strip("-_")


def test_long_names_end_in_a_digest() -> None:
    config = parse_url("sqs://eu-central-1")
    stem = "x" * (NAME_CHARS_MAX - 1)
    assert len({config.queue_name(stem + end) for end in "abc"}) == 3
