"""Decides how long an ended job is kept, and which are to be deleted now."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from onbeat.model.errors import Invalid
from onbeat.model.job import FINAL_STATES, JobState
from onbeat.model.keep_rule import Keeping, KeepRule, Sweep
from onbeat.model.limits import KEEP_RULES_MAX, SPAN_MAX
from onbeat.rules.calendar import shifted

STATES: Final = tuple(state for state in JobState if state in FINAL_STATES)


def check_rules(rules: Sequence[KeepRule]) -> None:
    """Raises `Invalid` for too many rules, and for one that can never count."""
    if len(rules) > KEEP_RULES_MAX:
        raise Invalid(f"at most {KEEP_RULES_MAX} rules, not {len(rules)}")
    for number, rule in enumerate(rules, 1):
        if rule.state is not None and rule.state not in STATES:
            raise Invalid(f"rule {number}: state must be one of {', '.join(STATES)}")
        if not timedelta() <= rule.after <= SPAN_MAX:
            raise Invalid(f"rule {number}: after must be from 0s to {SPAN_MAX.days}d")
        if any(covers(earlier, rule) for earlier in rules[: number - 1]):
            raise Invalid(
                f"rule {number} never counts, as an earlier one has all its jobs: put it first"
            )


def covers(one: KeepRule, other: KeepRule) -> bool:
    """Whether every job that meets the other rule meets this one."""
    return one.queue in {None, other.queue} and one.state in {None, other.state}


def kept_for(keeping: Keeping, queue: str, state: JobState) -> timedelta:
    """How long a job of this queue is kept after it ended in this state."""
    named, otherwise = spans_of(keeping, state)
    return named.get(queue, otherwise)


def spans_of(keeping: Keeping, state: JobState) -> tuple[dict[str, timedelta], timedelta]:
    """The span for each queue that the rules name, and the span for all others."""
    named: dict[str, timedelta] = {}
    for rule in keeping.rules:
        if rule.state not in {None, state}:
            continue
        if rule.queue is None:
            return named, rule.after
        named.setdefault(rule.queue, rule.after)
    return named, keeping.failed_after if state is JobState.FAILED else keeping.after


def longest(keeping: Keeping, *states: JobState) -> timedelta:
    """For how long a job with one of these states can be kept."""
    spans = (spans_of(keeping, state) for state in states)
    return max(span for named, otherwise in spans for span in (*named.values(), otherwise))


def sweeps(keeping: Keeping, now: datetime) -> Iterator[Sweep]:
    """What is kept for less than the longest span of its state, or of those that go with it."""
    together = {state: longest(keeping, *group) for group in GROUPS for state in group}
    for state in STATES:
        named, otherwise = spans_of(keeping, state)
        for queue, span in named.items():
            if span < together[state]:
                yield Sweep(state=state, before=shifted(now, -span), queue=queue)
        if otherwise < together[state]:
            yield Sweep(state=state, before=shifted(now, -otherwise), others=tuple(named))


GROUPS: Final = ((JobState.SUCCEEDED, JobState.CANCELLED), (JobState.FAILED,))
"""States whose jobs are deleted at one age where no sweep takes them."""
