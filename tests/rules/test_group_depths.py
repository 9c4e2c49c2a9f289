"""The groups of a queue, as its detail shows them."""

from onbeat.model.queue import GroupDepth
from onbeat.rules.group_depths import group_depths


def test_the_deepest_group_is_first_then_the_busiest_then_by_name() -> None:
    found = group_depths(["b", "a", "b", "d"], ["c", "c", "d", "b"], {}, more=False)
    assert found.groups == (
        GroupDepth(group="b", waiting=2, running=1),
        GroupDepth(group="d", waiting=1, running=1),
        GroupDepth(group="a", waiting=1),
        GroupDepth(group="c", running=2),
    )
    assert not found.more


def test_jobs_without_a_group_are_those_of_an_empty_name() -> None:
    found = group_depths([None, "a", None], [None], {}, more=True)
    assert found.groups[0] == GroupDepth(group="", waiting=2, running=1)
    assert found.more


def test_starts_are_counted_since_the_last_turn_of_each_group() -> None:
    found = group_depths(["a", "b", "c"], [], {"a": 7, "b": 10}, more=False)
    assert {one.group: one.starts_since for one in found.groups} == {"a": 3, "b": 0, "c": None}
