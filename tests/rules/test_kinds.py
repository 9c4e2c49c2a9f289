"""Options are of the kind that is written down, or are refused where they are given."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.model.role import Role
from onbeat.rules.kinds import check_kinds


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    span: timedelta = timedelta(seconds=1)
    count: int = 1
    text: str | None = None
    level: Literal["info", "error"] | None = None
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset()
    places: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        check_kinds(self)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"span": timedelta(minutes=1), "count": 2, "text": "x"},
        {"level": "error"},
        {"names": ["a", "b"]},
        {"kinds": {"a"}},
        {"roles": {Role.WORKER, "planner"}},
        {"places": {"a": 1}},
    ],
)
def test_values_of_their_kind_are_taken(given: dict[str, Any]) -> None:
    assert Choices(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"span": "30s"}, "span must be a timedelta"),
        ({"count": True}, "count must be a whole number"),
        ({"text": 3}, "text must be text or None"),
        ({"level": "loud"}, "level must be 'info' or 'error' or None, not 'loud'"),
        ({"names": "abc"}, "names must be a tuple of values, each text"),
        ({"names": {"a": 1}}, "names must be a tuple"),
        ({"kinds": ["a", 1]}, "kinds must be a frozenset"),
        ({"kinds": [1]}, "kinds must be"),
        ({"roles": {"boss"}}, "roles must be a frozenset of values, each one of api, planner"),
        ({"places": ["a"]}, "places must be a mapping"),
        ({"places": {"a": "b"}}, "places must be a mapping of names to values, each a whole"),
        ({"text": 10**70}, "not 1000000"),
    ],
)
def test_values_of_another_kind_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        Choices(**given)
