from collections import Counter, deque
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.rules.fairness import KEPT, FairOrder, GroupKey, depth, should_prune_turns


def seats(groups: str) -> list[GroupKey | None]:
    """One job for each letter, by age; a dot is one of a queue without turns."""
    return [None if group == "." else GroupKey("q", 0, group) for group in groups]


def given_out(groups: str, turns: FairOrder | None = None) -> str:
    return "".join(groups[age] for age in (turns or FairOrder()).order_of(seats(groups)))


@pytest.mark.parametrize(
    ("groups", "order"),
    [
        ("", ""),
        ("...", "..."),
        ("aaab", "abaa"),
        ("aaabbc", "abcaba"),
        ("cba", "cba"),
        # The oldest job holds the place of its queue, whoever's turn it is.
        ("aa.ab", "aba.a"),
        (".aab.", ".aba."),
        ("a.ab", "a.ba"),
        ("a.ba", "a.ba"),
    ],
)
def test_each_group_gives_out_one_in_each_round(groups: str, order: str) -> None:
    assert given_out(groups) == order


def test_rings_of_other_queues_and_priorities_know_nothing_of_each_other() -> None:
    turns = FairOrder()
    x, y, later = GroupKey("x", 0, "a"), GroupKey("y", 0, "a"), GroupKey("x", 1, "a")
    turns.give(x)
    ring = [x, x._replace(group="b"), y, y._replace(group="b"), later, later._replace(group="b")]
    assert turns.order_of(ring) == [1, 0, 2, 3, 4, 5]


def test_who_gave_out_last_is_behind_all_others() -> None:
    turns = FairOrder()
    for number, group in enumerate("abc", start=1):
        turns.learn(GroupKey("q", 0, group), number)
    assert given_out("abcd", turns) == "dabc"
    turns.give(GroupKey("q", 0, "a"))
    turns.give(GroupKey("q", 0, "d"))
    assert given_out("abcd", turns) == "bcad"
    turns.give(GroupKey("q", 0, "a"))
    assert list(turns.given) == [GroupKey("q", 0, "d"), GroupKey("q", 0, "a")]
    assert given_out("abcd", turns) == "bcda"


def test_what_a_group_may_not_give_out_comes_last() -> None:
    turns = FairOrder()
    room = {"a": 1, "b": 2}

    def sort(groups: str) -> str:
        result = turns.sort(
            groups,
            lambda group: None if group == "." else GroupKey("q", 0, group),
            lambda seat, most: min(most, room[seat.group]),
        )
        return "".join(result)

    assert sort("aaa.bbb") == "a.bbaab"
    assert sort("aab") == "aba"


@given(st.text("abcd.", max_size=30), st.permutations("abcd"), st.integers(0, 30))
def test_one_claim_is_as_many_of_one_job(groups: str, last: list[str], count: int) -> None:
    """Whatever was before: the same jobs are given out, and the turns are then the same."""
    at_once, one_by_one = FairOrder(), FairOrder()
    for turns in (at_once, one_by_one):
        for number, group in enumerate(last):
            turns.learn(GroupKey("q", 0, group), number)
    ages = at_once.order_of(seats(groups))[:count]
    left = list(enumerate(groups))
    for age in ages:
        place = one_by_one.order_of(seats("".join(group for _, group in left)))[0]
        assert left.pop(place)[0] == age
        for turns in (at_once, one_by_one):
            if groups[age] != ".":
                turns.give(GroupKey("q", 0, groups[age]))
    assert at_once.given == one_by_one.given


class WaitingLine:
    """A queue whose jobs are given out by claims of one size, one after the other."""

    def __init__(self, each: int) -> None:
        self.each = each
        self.waiting: deque[str] = deque()
        self.turns: dict[GroupKey, int] = {}
        self.newest = 0

    def claim(self) -> Sequence[str]:
        turns = FairOrder()
        for seat, turn in self.turns.items():
            turns.learn(seat, turn)
        waiting = list(self.waiting)
        taken = turns.order_of(seats("".join(waiting)))[: self.each]
        for age in taken:
            turns.give(GroupKey("q", 0, waiting[age]))
        self.keep(turns.given)
        self.waiting = deque(one for age, one in enumerate(waiting) if age not in set(taken))
        return [waiting[age] for age in taken]

    def keep(self, given: Mapping[GroupKey, int]) -> None:
        for seat, place in given.items():
            self.turns[seat] = self.newest + place
        self.newest += len(given)


@pytest.mark.parametrize("each", [1, 10, 100])
@pytest.mark.parametrize("others", [1, 3, 20])
def test_a_trickle_waits_for_one_job_of_each_other_group(each: int, others: int) -> None:
    """However many others have waiting, and in however large bites it is given out."""
    line = WaitingLine(each)
    floods = [chr(ord("A") + number) for number in range(others)]
    for flood in floods:
        line.waiting.extend(flood * 300)
    line.claim()
    for _ in range(5):
        line.waiting.append("z")
        ahead: Counter[str] = Counter()
        while True:
            taken = line.claim()
            if "z" in taken:
                ahead.update(taken[: taken.index("z")])
                break
            ahead.update(taken)
        assert max(ahead.values(), default=0) <= 1


def test_as_many_jobs_are_looked_at_as_mostly_fill_up_a_claim() -> None:
    assert depth(100, 0) == depth(100, 1) == depth(100, 4) == 100
    assert depth(100, 8) == 51
    assert depth(100, 8, times=1) == 13
    assert depth(100, 1_000) == 2
    assert depth(1, 1_000) == 1


def test_old_turns_are_forgotten_now_and_then() -> None:
    assert not should_prune_turns(KEPT - 1, 5)
    assert should_prune_turns(KEPT, 1)
    assert should_prune_turns(KEPT + 3, 10)
    assert not should_prune_turns(KEPT + 30, 10)
    assert sum(should_prune_turns(newest, 7) for newest in range(7, 10 * KEPT, 7)) == 99
