import pytest

from onbeat.model.errors import Invalid
from onbeat.model.event import OWN_TYPES
from onbeat.model.reaction import EventPattern
from onbeat.rules.own_events import fits, wanted_types
from onbeat.rules.reactions import check_reaction
from onbeat.testing.build import a_schedule

JOB_TYPES = {type for type in OWN_TYPES if type.startswith("onbeat.job.")}


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (EventPattern("onbeat.job.failed"), {"onbeat.job.failed"}),
        (EventPattern("onbeat.job.*"), JOB_TYPES),
        (EventPattern("*"), set(OWN_TYPES)),
        (EventPattern("*", source="onbeat"), set(OWN_TYPES)),
        (EventPattern("*", source="/shop/*"), set()),
        (EventPattern("onbeat.job"), set()),
        (EventPattern("payment.*"), set()),
    ],
)
def test_own_types_are_wanted_where_type_and_source_match(pattern, wanted) -> None:
    assert wanted_types(a_schedule(on=(pattern,))) == wanted
    assert wanted_types(a_schedule(cancel_on=(pattern,))) == wanted


def test_a_schedule_without_patterns_wants_none() -> None:
    assert wanted_types(a_schedule()) == set()


@pytest.mark.parametrize("type", ["onbeat.job.done", "onbeat.nothing.*", "onbeat."])
def test_a_type_that_nothing_writes_is_refused(type: str) -> None:
    for name, patterns, field in (
        ("on", (EventPattern(type),), "on.type"),
        ("cancel_on", (EventPattern("a"), EventPattern(type)), "cancel_on[1].type"),
    ):
        with pytest.raises(Invalid, match="Onbeat has no event") as refused:
            check_reaction(a_schedule(**{"on": (EventPattern("a"),), name: patterns}))
        assert refused.value.field == field


@pytest.mark.parametrize(
    "type", ["onbeat.job.failed", "onbeat.*", "onbeat*", "on*", "onbeats", "*"]
)
def test_other_types_are_accepted(type: str) -> None:
    check_reaction(a_schedule(on=(EventPattern(type),)))


@pytest.mark.parametrize(
    ("pattern", "text", "result"),
    [("a", "a", True), ("a", "ab", False), ("a*", "ab", True), ("a*", "a", True), ("", "a", False)],
)
def test_only_a_star_at_the_end_stands_for_more(pattern, text, result) -> None:
    assert fits(pattern, text) is result
