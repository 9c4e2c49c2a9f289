"""The checker takes every history that has an order, and refuses those that have none."""

import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_checks.linearizability import NEVER, UNKNOWN, Model, Operation, violations
from model_checks.models import JOB, KEY, SCHEDULE, Lease


def op(verb: str, argument: Any, answer: Any, called: float, returned: float = NEVER) -> Operation:
    return Operation("w", "k", verb, argument, answer, called, returned)


WRONG: dict[str, tuple[Model[Any], list[Operation]]] = {
    "one lease for two": (JOB, [op("claim", None, 1, 0, 2), op("claim", None, 1, 1, 3)]),
    "a token that leaps": (JOB, [op("claim", None, 2, 0, 1)]),
    "a lease for a job that runs": (JOB, [op("claim", None, 1, 0, 1), op("claim", None, 2, 2, 3)]),
    "a lease for a job that has ended": (
        JOB,
        [
            op("claim", None, 1, 0, 1),
            op("settle", (1, "succeed"), True, 2, 3),
            op("claim", None, 2, 4, 5),
        ],
    ),
    "two ends of one attempt": (
        JOB,
        [
            op("claim", None, 1, 0, 1),
            op("settle", (1, "succeed"), True, 2, 4),
            op("settle", (1, "fail"), True, 3, 5),
        ],
    ),
    "a word of a lease that was lost": (
        JOB,
        [
            op("claim", None, 1, 0, 1),
            op("settle", (1, "lose"), True, 2, 3),
            op("claim", None, 2, 4, 5),
            op("settle", (1, "succeed"), True, 6, 7),
        ],
    ),
    "a settlement that was acknowledged and forgotten": (
        JOB,
        [
            op("claim", None, 1, 0, 1),
            op("settle", (1, "fail"), True, 2, 3),
            op("settle", (1, "fail"), False, 4, 5),
        ],
    ),
    "a lease after an acknowledged cancel": (
        JOB,
        [op("cancel", None, "cancelled", 0, 1), op("claim", None, 1, 2, 3)],
    ),
    "a settlement from before its claim": (
        JOB,
        [op("settle", (1, "succeed"), True, 0, 1), op("claim", None, 1, 2, 3)],
    ),
    "a retry that was not one": (JOB, [op("retry", None, "failed", 0, 1)]),
    "a state that no call led to": (
        JOB,
        [op("claim", None, 1, 0, 1), op("read", None, ("waiting", 0), 2, 3)],
    ),
    "two jobs with one key": (
        KEY,
        [op("enqueue", "a", "a", 0, 2), op("enqueue", "b", "b", 1, 3)],
    ),
    "a holder that nobody sent": (KEY, [op("enqueue", "a", "x", 0, 1)]),
    "a key that an end did not free": (
        KEY,
        [
            op("enqueue", "a", "a", 0, 1),
            op("cancel", "a", "cancelled", 2, 3),
            op("enqueue", "b", "a", 4, 5),
        ],
    ),
    "two edits of one reading": (SCHEDULE, [op("edit", 2, True, 0, 2), op("edit", 2, True, 1, 3)]),
    "a plan by an old rule": (
        SCHEDULE,
        [op("edit", 2, True, 0, 1), op("plan", (1, ((7, "a"),)), True, 2, 3)],
    ),
    "an occurrence with two jobs": (
        SCHEDULE,
        [
            op("plan", (1, ((7, "a"),)), True, 0, 2),
            op("plan", (1, ((7, "b"),)), True, 1, 3),
            op("read", None, frozenset({(7, "a"), (7, "b")}), 4, 5),
        ],
    ),
    "a plan that was acknowledged and lost": (
        SCHEDULE,
        [op("plan", (1, ((7, "a"),)), True, 0, 1), op("read", None, frozenset(), 2, 3)],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_refused(name: str) -> None:
    model, history = WRONG[name]
    (found,) = violations(history, model)
    assert "no order explains the history of k" in str(found)
    assert set(found.longest) < set(history)


def test_operations_of_other_objects_do_not_explain_an_answer() -> None:
    first = Operation("w", "a", "claim", None, 1, 0, 1)
    assert not violations([first, Operation("v", "b", "claim", None, 1, 0, 1)], JOB)
    assert [
        one.key for one in violations([first, Operation("v", "b", "claim", None, 2, 0, 1)], JOB)
    ] == ["b"]


def test_an_operation_without_an_answer_may_have_happened_or_not() -> None:
    lost_claim = op("claim", None, UNKNOWN, 0)
    assert not violations([lost_claim, op("claim", None, 1, 5, 6)], JOB)
    assert not violations([lost_claim, op("settle", (1, "lose"), True, 5, 6)], JOB)
    # It cannot have happened before its call.
    late = op("claim", None, UNKNOWN, 7)
    assert violations([late, op("settle", (1, "lose"), True, 5, 6)], JOB)


def test_a_history_may_be_long() -> None:
    """Many attempts, each beside three that got nothing; without its memory the search would last."""
    history: list[Operation] = []
    for turn in range(150):
        at = 10.0 * turn
        history.append(op("claim", None, turn + 1, at, at + 3))
        history += [op("claim", None, None, at + place / 10, at + 4) for place in range(3)]
        history.append(op("settle", (turn + 1, "release"), True, at + 5, at + 6))
    assert not violations(history, JOB)
    history.append(op("settle", (1, "succeed"), True, 5_000, 5_001))
    assert violations(history, JOB)


VERBS = st.sampled_from(["claim", "settle", "cancel", "retry"])


def true_answers(verb: str, lease: Lease, chance: random.Random) -> Iterator[Operation]:
    """Operations that are right in this state."""
    right: dict[str, list[tuple[Any, Any]]] = {
        "claim": [(None, None), (None, lease.token + 1)],
        "settle": [
            ((lease.token + back, how), answer)
            for back in (0, -1)
            for how in ("succeed", "fail", "release")
            for answer in (True, False)
        ],
        "cancel": [
            (None, state) for state in ("cancelled", "running", "succeeded", "failed", "waiting")
        ],
        "retry": [(None, state) for state in ("waiting", "running", "succeeded")],
    }
    answers = right[verb]
    chance.shuffle(answers)
    for argument, answer in answers:
        made = op(verb, argument, answer, 0, 0)
        if any(True for _ in JOB.step(lease, made)):
            yield made


@given(verbs=st.lists(VERBS, max_size=12), seed=st.integers(0, 1 << 20))
def test_what_happened_in_an_order_is_taken_however_it_overlapped(
    verbs: list[str], seed: int
) -> None:
    chance, lease = random.Random(seed), Lease()
    history: list[Operation] = []
    for at, verb in enumerate(verbs):
        made = next(true_answers(verb, lease, chance), None)
        if made is None:
            continue
        (lease,) = JOB.step(lease, made)
        # It took effect at `at`, which lies between its call and its return.
        called, returned = at - chance.random() * 3, at + chance.random() * 3
        answer = UNKNOWN if chance.random() < 0.2 else made.answer
        history.append(
            op(made.verb, made.argument, answer, called, NEVER if answer == UNKNOWN else returned)
        )
    assert not violations(history, JOB)


def explained_by_some_order(history: list[Operation]) -> bool:
    """By trying all of them."""
    for order in permutations(history):
        late = any(
            after.returned < before.called
            for place, before in enumerate(order)
            for after in order[place + 1 :]
        )
        states = [JOB.first]
        for one in order:
            states = [after for state in states for after in JOB.step(state, one)]
        if states and not late:
            return True
    return False


OPERATIONS = st.one_of(
    st.tuples(st.just("claim"), st.none(), st.sampled_from([None, 1, 2])),
    st.tuples(
        st.just("settle"),
        st.tuples(st.integers(1, 2), st.sampled_from(["succeed", "fail", "release"])),
        st.booleans(),
    ),
    st.tuples(st.just("cancel"), st.none(), st.sampled_from(["cancelled", "running"])),
    st.tuples(st.just("retry"), st.none(), st.sampled_from(["waiting", "running"])),
)
TIMED = st.tuples(OPERATIONS, st.integers(0, 8), st.integers(0, 4))


@given(drawn=st.lists(TIMED, max_size=5))
def test_it_agrees_with_a_trial_of_all_orders(drawn: list[Any]) -> None:
    history = [
        op(verb, argument, answer, called, called + span)
        for (verb, argument, answer), called, span in drawn
    ]
    assert (not violations(history, JOB)) == explained_by_some_order(history)
