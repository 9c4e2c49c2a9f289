"""Whether a recorded history of concurrent operations has an order that explains its answers.

The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the
memory of Lowe ("Testing for linearizability", 2017): a pair of the operations that were ordered and
the state that they lead to is looked at once. An operation without an answer, because its caller
was killed or heard an error, may have taken effect at any time after its call, or never.

A history is checked object by object (one job, one key, one schedule), as a history is linearizable
if and only if that of each object is (Herlihy and Wing, 1990).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

State = TypeVar("State", bound=Hashable)

UNKNOWN: Final = "unknown"
"""The answer of an operation that was never heard."""
NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Operation:
    """One call: by whom, on which object, what, the answer, and when it began and returned."""

    who: str
    key: str
    verb: str
    argument: Any
    answer: Any
    called: float
    returned: float = NEVER

    @property
    def is_unknown(self) -> bool:
        return bool(self.answer == UNKNOWN)


@dataclass(frozen=True, slots=True)
class Model(Generic[State]):
    """A sequential object: its first state, and the states that an operation may lead to.

    `step` gets the state and the operation, and gives no state where the answer is wrong. For an
    operation whose answer is `UNKNOWN` it gives every state that it could lead to.
    """

    first: State
    step: Callable[[State, Operation], Iterable[State]]


@dataclass(frozen=True, slots=True)
class Violation:
    """An object whose history has no order, and the longest order that was found."""

    key: str
    history: tuple[Operation, ...]
    longest: tuple[Operation, ...]

    def __str__(self) -> str:
        stuck = [one for one in self.history if one not in self.longest]
        lines = ["  " + str(one) for one in self.longest] + ["  ? " + str(one) for one in stuck]
        return "\n".join([f"no order explains the history of {self.key}:", *lines])


def violations(history: Iterable[Operation], model: Model[Any]) -> list[Violation]:
    """The objects whose operations no order explains."""
    by_key: Mapping[str, list[Operation]] = defaultdict(list)
    for one in history:
        by_key[one.key].append(one)
    found = (
        (key, operations, longest_order(operations, model)) for key, operations in by_key.items()
    )
    return [
        Violation(key, tuple(operations), tuple(longest))
        for key, operations, (is_explained, longest) in found
        if not is_explained
    ]


def longest_order(
    history: Sequence[Operation], model: Model[Any]
) -> tuple[bool, Sequence[Operation]]:
    """Whether an order explains all answers, and that order or the longest one found.

    Sets of operations are numbers with one bit for each, in the order of their calls.
    """
    operations = sorted(history, key=lambda one: one.called)
    needed = sum(1 << place for place, one in enumerate(operations) if not one.is_unknown)
    seen: set[tuple[int, Hashable]] = set()
    longest: tuple[int, ...] = ()
    stack: list[tuple[int, Hashable, tuple[int, ...]]] = [(0, model.first, ())]
    while stack:
        done, state, order = stack.pop()
        if len(order) > len(longest):
            longest = order
        if done & needed == needed:
            return True, [operations[place] for place in order]
        for place in reversed(candidates(operations, done)):
            for after in model.step(state, operations[place]):
                reached = (done | 1 << place, after)
                if reached not in seen:
                    seen.add(reached)
                    stack.append((*reached, (*order, place)))
    return False, [operations[place] for place in longest]


def candidates(operations: Sequence[Operation], done: int) -> list[int]:
    """Those that may come next: no other one that is left had returned before they were called."""
    found: list[int] = []
    earliest = NEVER
    for place, one in enumerate(operations):
        if done >> place & 1:
            continue
        if one.called > earliest:
            break
        found.append(place)
        earliest = min(earliest, one.returned)
    return [place for place in found if operations[place].called <= earliest]
