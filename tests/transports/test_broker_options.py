"""One list of options for the parsers of URLs and for the reference page."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from onbeat.model.broker_options import (
    BROKER_URLS,
    KAFKA,
    RABBITMQ,
    REDIS,
    SQS,
    BrokerOption,
    BrokerUrl,
)
from onbeat.model.errors import Misconfigured
from onbeat.settings.reference import reference_page
from onbeat.transports.amqp.config import parse_url as parse_amqp
from onbeat.transports.kafka.config import parse_url as parse_kafka
from onbeat.transports.redis.config import parse_url as parse_redis
from onbeat.transports.sqs.config import parse_url as parse_sqs
from onbeat.transports.url_options import UrlOptions

ROOT = Path(__file__).parents[2]

PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "RabbitMQ": (parse_amqp, "amqps://host/"),
    "Redis": (parse_redis, "rediss://host/0"),
    "SQS": (parse_sqs, "sqs://eu-central-1"),
    "Kafka": (parse_kafka, "kafka://host:9092"),
}
ROWS = [(url, option) for url in BROKER_URLS for option in url.options]
NUMBERS = [(url, option) for url, option in ROWS if option.kind in {"whole number", "seconds"}]


def parse(url: BrokerUrl, option: BrokerOption, value: object) -> Any:
    parser, plain = PARSERS[url.broker]
    if option.name == "db":
        plain = "redis+unix:///run/redis.sock"
    return parser(f"{plain}?{option.name}={quote(str(value), safe='')}")


def row_name(value: object) -> str:
    return value.broker if isinstance(value, BrokerUrl) else getattr(value, "name", "")


@pytest.mark.parametrize(("url", "option"), NUMBERS, ids=row_name)
def test_the_bounds_of_a_number_are_those_of_the_list(url: BrokerUrl, option: BrokerOption) -> None:
    parse(url, option, option.high)
    lowest = option.low if option.kind == "whole number" else 0.001
    parse(url, option, lowest)
    for value in (option.high + 1, lowest - 1):
        with pytest.raises(Misconfigured, match=f"{option.name} is a"):
            parse(url, option, value)


def test_what_is_listed_is_what_a_parser_takes() -> None:
    for url in BROKER_URLS:
        parser, plain = PARSERS[url.broker]
        with pytest.raises(Misconfigured) as refused:
            parser(f"{plain}?colour=red")
        allowed = str(refused.value).partition("allowed are ")[2].split(", ")
        # A server has its database in the path; only a socket has the option.
        listed = {option.name for option in url.options} - {"db"}
        assert sorted(listed) == allowed, url.broker


def test_an_option_that_is_not_listed_cannot_be_taken() -> None:
    with pytest.raises(KeyError, match="colour"):
        UrlOptions("colour=red", SQS).text("colour")


def test_a_default_counts_where_a_url_gives_none() -> None:
    assert parse_sqs("sqs://eu-central-1").visibility == int(SQS.option("visibility").default)
    assert parse_redis("redis://host").visibility == float(REDIS.option("visibility").default)
    assert parse_kafka("kafka://host").group == KAFKA.option("group").default
    assert parse_amqp("amqp://host").timeout == float(RABBITMQ.option("timeout").default)


def test_each_option_is_a_row_of_the_reference() -> None:
    sections = reference_page().split("\n### ")[1:]
    assert [section.partition("\n")[0] for section in sections] == list(PARSERS)
    for url, section in zip(BROKER_URLS, sections, strict=True):
        rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
        assert rows == [option.name for option in url.options]
        assert url.form in section


def test_the_extra_of_each_broker_is_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {url.extra for url in BROKER_URLS} <= project["optional-dependencies"].keys()
