"""The list of the options that the URL of a broker may have."""

import pytest

from onbeat.model.broker_options import (
    BROKER_URLS,
    KAFKA,
    KAFKA_PRODUCING,
    BrokerUrl,
    default_texts,
)


@pytest.mark.parametrize("url", BROKER_URLS, ids=lambda url: url.broker)
def test_names_are_unique_and_defaults_within_their_bounds(url: BrokerUrl) -> None:
    assert len({option.name for option in url.options}) == len(url.options)
    for option in url.options:
        assert url.option(option.name) is option
        if option.kind in {"whole number", "seconds"}:
            assert option.low <= int(option.default) <= option.high


def test_a_name_that_is_not_listed_is_an_error() -> None:
    with pytest.raises(KeyError, match="colour"):
        KAFKA.option("colour")


def test_only_an_option_with_a_default_has_one() -> None:
    assert default_texts(KAFKA_PRODUCING) == {"linger.ms": "1"}
