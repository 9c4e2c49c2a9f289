"""What must hold after chaos, judged by journals and by the store; pure, so that it can be tried."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

POISON = "poison"
ENDED = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True)
class Run:
    """One attempt as its handler wrote it down; `ended` is None when it never came to that."""

    job: str
    token: int
    process: str
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class Record:
    """One job as the store has it in the end. `lost` are the tokens of attempts that were lost."""

    id: str
    task: str
    state: str
    token: int
    number: int | None = None
    occurrence: datetime | None = None
    result: int | None = None
    reason: str | None = None
    lost: frozenset[int] = frozenset()


@dataclass
class Journals:
    """`intents`: the numbers asked for; `answers`: what each answer named as the job of a number.

    `kills`: which process was ended when. `dispositions` are the instants of the schedule that the
    store has decided on, `wanted` those that it should have.
    """

    intents: set[int] = field(default_factory=set)
    answers: list[tuple[int, str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    kills: list[tuple[str, float]] = field(default_factory=list)
    wanted: list[datetime] = field(default_factory=list)
    dispositions: list[datetime] = field(default_factory=list)


@dataclass
class Verdict:
    """Each list names the jobs, numbers or instants at which a promise was broken.

    Of the numbers `accepted`, `ok` are those whose job is there alone and has ended as it should.
    """

    accepted: int
    ok: int
    lost: Sequence[object]
    unexpected: Sequence[object]
    unended: Sequence[object]
    harmed: Sequence[object]
    doubled: Sequence[object]
    overlapped: Sequence[object]
    stale: Sequence[object]
    occurrences: Sequence[object]
    recovered: list[float]

    VIOLATIONS = (
        "lost", "unexpected", "unended", "harmed", "doubled", "overlapped", "stale", "occurrences",
    )  # fmt: skip

    @property
    def is_good(self) -> bool:
        return self.accepted > 0 and not any(getattr(self, name) for name in self.VIOLATIONS)


def judge(journals: Journals) -> Verdict:
    runs = by_job(journals.runs)
    return Verdict(
        accepted=len({number for number, _ in journals.answers}),
        ok=len(all_right(journals)),
        lost=[number for number, id in journals.answers if id not in journals.records],
        unexpected=unexpected(journals),
        unended=[record.id for record in journals.records.values() if record.state not in ENDED],
        harmed=[record.id for record in journals.records.values() if is_harmed(record)],
        doubled=[*twice(journals), *again(journals.records, runs)],
        overlapped=[
            pair for id in runs for pair in overlapping(runs[id], journals.records.get(id))
        ],
        stale=[
            record.id for record in journals.records.values() if is_stale(record, runs[record.id])
        ],
        occurrences=occurrences(journals),
        recovered=recovered(journals, runs),
    )


def by_job(runs: Iterable[Run]) -> Mapping[str, list[Run]]:
    result: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.token):
        result[run.job].append(run)
    return result


def all_right(journals: Journals) -> set[int]:
    doubled = {*twice(journals)}
    return {
        number
        for number, id in journals.answers
        if id in journals.records
        and journals.records[id].state in ENDED
        and not is_harmed(journals.records[id])
        and number not in doubled
    }


def unexpected(journals: Journals) -> list[int]:
    """Jobs that nobody asked for, and answers to what nobody asked."""
    numbers = {record.number for record in journals.records.values() if record.number is not None}
    return sorted((numbers | {number for number, _ in journals.answers}) - journals.intents)


def is_harmed(record: Record) -> bool:
    """Innocent, and yet it did not succeed; or poison that is not shown as such."""
    if record.state not in ENDED:
        return False
    if record.task == POISON:
        return record.state != "failed" or not (record.reason or "").startswith("poison: ")
    return record.state != "succeeded"


def twice(journals: Journals) -> list[int]:
    """Numbers that were asked for once, however often the request was sent, and have two jobs."""
    ids: dict[int, set[str]] = defaultdict(set)
    for number, id in journals.answers:
        ids[number].add(id)
    for record in journals.records.values():
        if record.number is not None:
            ids[record.number].add(record.id)
    return sorted(number for number, result in ids.items() if len(result) > 1)


def again(records: Mapping[str, Record], runs: Mapping[str, list[Run]]) -> list[object]:
    """Jobs of which an attempt began after the one that ended them had; or one token twice."""
    result: list[object] = []
    for id, tries in runs.items():
        record = records.get(id)
        tokens = [run.token for run in tries]
        last = [run for run in tries if record is not None and run.token == record.token]
        after = [run for run in tries if last and run.token > last[0].token]
        if after or len(tokens) != len(set(tokens)):
            result.append(id)
    return result


def overlapping(tries: Sequence[Run], record: Record | None) -> list[object]:
    """Attempts that went on when a later one began, though the store does not call them lost."""
    lost = record.lost if record is not None else frozenset[int]()
    return [
        (early.job, early.token, late.token)
        for early, late in pairwise(tries)
        if early.ended is not None and early.ended > late.began and early.token not in lost
    ]


def is_stale(record: Record, tries: Sequence[Run]) -> bool:
    """It succeeded by the word of an attempt that was not its last."""
    if record.state != "succeeded":
        return False
    answer = [run for run in tries if run.token == record.token and run.ended is not None]
    return record.result != record.token or not answer


def occurrences(journals: Journals) -> list[datetime]:
    """Instants without a disposition, or with two."""
    return sorted(
        at
        for at in {*journals.wanted, *journals.dispositions}
        if journals.wanted.count(at) != journals.dispositions.count(at)
    )


def recovered(journals: Journals, runs: Mapping[str, list[Run]]) -> list[float]:
    """Seconds from a kill until each job that it interrupted ran again."""
    result = []
    for process, at in journals.kills:
        for tries in runs.values():
            for early, late in pairwise(tries):
                if early.process == process and early.ended is None and early.began <= at:
                    result.append(max(0.0, late.began - at))
    return result


def table(store: str, verdict: Verdict) -> str:
    """One line of numbers, and below it what each violation is about."""
    names = ("accepted", "ok", *Verdict.VIOLATIONS)
    counts = [
        verdict.accepted,
        verdict.ok,
        *(len(getattr(verdict, name)) for name in Verdict.VIOLATIONS),
    ]
    head = f"{'store':10}" + "".join(f"{name:>12}" for name in names) + "   recovered p50/p99/max"
    link = f"{store:10}" + "".join(f"{count:>12}" for count in counts)
    times = "/".join(f"{share(verdict.recovered, part):.1f}" for part in (0.5, 0.99, 1.0))
    wrong = [
        f"  {name}: {getattr(verdict, name)[:5]}"
        for name in Verdict.VIOLATIONS
        if getattr(verdict, name)
    ]
    return "\n".join([head, f"{link}   {times} s of {len(verdict.recovered)}", *wrong])


def share(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
