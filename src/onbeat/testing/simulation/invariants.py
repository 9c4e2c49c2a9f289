"""What must hold after a history, judged by what clients and handlers saw and by the store."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from onbeat.engine.clocks import DRIFT, FOLLOW_PERIOD
from onbeat.engine.options import BEATS_PER_LEASE
from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Disposition
from onbeat.stores.memory.tables import Tables
from onbeat.testing.simulation.clocks import EPOCH
from onbeat.testing.simulation.journal import Attempted, Journal
from onbeat.testing.simulation.options import SimulationOptions
from onbeat.testing.simulation.store_link import HANG_SECONDS

INVARIANTS: Final = {
    "I1": "an accepted job is stored, and one request makes one job",
    "I2": "every job ends, and once",
    "I3": "each instant of a schedule is decided on once, and none is left out",
    "I4": "the token of a job only rises, no two attempts share one, and none begins after a newer",
    "I6": "what succeeded was run, and no more often than it was claimed",
    "I7": "every attempt has one outcome, and the limits of attempts hold",
    "I8": "one live job for a unique key, and no more running jobs than a queue may have",
    "I9": "no attempt begins before its job is due",
    "I10": "no attempt begins after a cancel was acknowledged",
    "I11": "what comes after another job begins after its end",
    "I12": "a retry is due within the delay of its policy, and retries are dispersed in it",
    "I14": "the work that is left after the last fault is done in time",
    "R3": "no worker that lives and can reach the store is called dead",
    "I16": "states change along the edges of the state machine, and the counts add up",
    "I17": "what was pruned had ended, and is not planned again",
    "I18": "the indexes of the store agree with its rows",
    "engine": "no loop fails but for a store or a broker that is away, and no task by itself",
    "stuck": "time goes on",
    "refused": "no request fails for a reason that its sender cannot know",
}

CANCEL_SECONDS: Final = 1.0
BAD_LINE: Final = 0.03
"""The share of lost calls above which several heartbeats in a row may be lost."""
EARLY_SECONDS: Final = 0.005
"""A claim compares with the time at which it was sent."""

TICK: Final = timedelta(microseconds=1)
SPREAD_MIN: Final = 40
"""From so many retries on no tenth of their delays can have half of them by chance."""

Check = Callable[["Judgement"], Iterator[tuple[str, str]]]


class Judgement:
    """The state at the end of a history, for the checks."""

    def __init__(
        self, options: SimulationOptions, journal: Journal, tables: Tables, now: datetime
    ) -> None:
        self.options = options
        self.now = now
        self.journal = journal
        self.tables = tables
        self.jobs = tables.jobs
        self.runs: dict[str, list[Attempted]] = defaultdict(list)
        for run in journal.attempts:
            self.runs[run.job].append(run)

    @property
    def prunes(self) -> bool:
        return self.options.keep > 0

    @property
    def is_calm(self) -> bool:
        """Whether each heartbeat arrives and is answered, so that a worker learns of a cancel."""
        options = self.options
        lines = options.errors, options.lost_answers, options.delays, options.hangs
        return not any((*lines, options.outages, options.read_only, options.pauses))

    @property
    def cancel_seconds(self) -> float:
        """When a worker has learned of the cancel of a job that it had claimed before."""
        return self.options.lease / BEATS_PER_LEASE + CANCEL_SECONDS

    @property
    def lag(self) -> float:
        """Seconds by which the clock of a process may be behind the store's."""
        options = self.options
        since_reading = FOLLOW_PERIOD + options.outages * options.outage_max
        return 3 * options.latency + (DRIFT + 2 * options.drift) * since_reading

    @property
    def kept_since(self) -> datetime:
        """What is later is not pruned; nothing is certain where the store's clock was set."""
        if not self.prunes:
            return EPOCH
        is_certain = not self.options.store_clock_steps
        return self.now - timedelta(seconds=self.options.keep - 1) if is_certain else self.now


def judge(options: SimulationOptions, journal: Journal, tables: Tables, now: datetime) -> None:
    """Add to the journal what does not hold at the end, when the store's clock shows `now`."""
    judgement = Judgement(options, journal, tables, now)
    for check in CHECKS:
        for invariant, what in check(judgement):
            journal.violate(invariant, what)


def accepted_jobs(it: Judgement) -> Iterator[tuple[str, str]]:
    """I1. What was pruned is not asked for."""
    made = Counter(sent.job for sent in it.journal.requests.values() if sent.created and sent.job)
    for sent in it.journal.requests.values():
        if sent.job is not None and sent.job not in it.jobs and not it.prunes:
            yield "I1", f"{sent.key} was accepted as job {sent.job}, which is not stored"
    for job, times in made.items():
        if times > 1:
            yield "I1", f"job {job} was made by {times} requests"
    expected = len(it.journal.requests)
    stored = sum(1 for job in it.jobs.values() if job.schedule_id is None)
    if stored > expected:
        yield "I1", f"{stored} jobs are stored for {expected} requests"


def occurrences(it: Judgement) -> Iterator[tuple[str, str]]:
    """I3. The oracle counts on from the start of the grid, and knows nothing of recurrences."""
    for id, seconds in it.journal.schedules.items():
        schedule = it.tables.schedules.get(id)  # type: ignore[call-overload]
        if schedule is None:
            yield "I3", f"schedule {id} was accepted and is not stored"
            continue
        yield from decided_instants(it, schedule, seconds)
    yield from doubled_occurrences(it)


def decided_instants(it: Judgement, schedule: Schedule, seconds: int) -> Iterator[tuple[str, str]]:
    """An edit withdraws what was planned, and a pause leaves out the rest: none is missed then."""
    rows = it.tables.dispositions.pages.get(schedule.id, [])
    found = Counter(at for row in rows for at in instants_of(row, seconds))
    first = max(schedule.created_at, it.kept_since)
    is_edited = schedule.id in it.journal.edited
    last = first if is_edited else schedule.planned_through
    wanted = set(instants(after(first, seconds), last, seconds))
    for at in sorted(wanted - found.keys())[:3]:
        yield "I3", f"schedule {schedule.id} has no disposition at {at:%H:%M:%S}"
    for at, times in found.items():
        if times > 1:
            yield "I3", f"schedule {schedule.id} has {times} dispositions at {at:%H:%M:%S}"
        if (at - grid_start()) % timedelta(seconds=seconds):
            yield "I3", f"schedule {schedule.id} has no instant at {at}, and a disposition"


def doubled_occurrences(it: Judgement) -> Iterator[tuple[str, str]]:
    """Two jobs for one instant, of which none was withdrawn by an edit."""
    may_plan_again = it.journal.may_plan_again
    jobs = Counter(
        (job.schedule_id, job.occurrence)
        for job in it.jobs.values()
        if job.schedule_id is not None and job.state is not JobState.CANCELLED
    )
    for (schedule, at), times in jobs.items():
        if times > 1 and not may_plan_again(schedule, it.options.keep):
            yield "I3", f"schedule {schedule} has {times} jobs for {at}"


def grid_start() -> datetime:
    return EPOCH - timedelta(seconds=30)


def after(instant: datetime, seconds: int) -> datetime:
    """The first instant of the grid that is later."""
    steps = (instant - grid_start()) // timedelta(seconds=seconds) + 1
    return grid_start() + steps * timedelta(seconds=seconds)


def instants(first: datetime, last: datetime, seconds: int) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += timedelta(seconds=seconds)


def instants_of(row: Disposition, seconds: int) -> Iterator[datetime]:
    """Those that it decides on. A skip that was split around a job begins between two of them."""
    first = row.first if row.job_id is not None else after(row.first - TICK, seconds)
    return instants(first, row.last, seconds)


def tokens(it: Judgement) -> Iterator[tuple[str, str]]:
    """I4, as handlers saw it."""
    for id, runs in it.runs.items():
        for token, times in Counter(run.token for run in runs).items():
            if times > 1:
                yield "I4", f"job {id} was begun {times} times with token {token}"
        for earlier, later in pairwise(sorted(runs, key=lambda run: run.at)):
            if later.token < earlier.token:
                begun = f"job {id} was begun at {later.at:.3f} with token {later.token}"
                yield "I4", f"{begun}, after {earlier.token} at {earlier.at:.3f}"


def effects(it: Judgement) -> Iterator[tuple[str, str]]:
    """I6."""
    for job in it.jobs.values():
        runs = it.runs.get(job.id, [])
        won = [run for run in runs if run.how == "succeeded"]
        if job.state is JobState.SUCCEEDED and not won:
            yield "I6", f"job {job.id} succeeded, and no handler did"
        if job.state is JobState.SUCCEEDED and job.token not in {run.token for run in won}:
            yield "I6", f"job {job.id} succeeded with token {job.token}, whose handler did not"
        if len(runs) > job.token:
            yield "I6", f"job {job.id} was run {len(runs)} times and claimed {job.token} times"


def attempts(it: Judgement) -> Iterator[tuple[str, str]]:
    """I7."""
    for job in it.jobs.values():
        ended = it.tables.attempts.get(job.id, [])
        for token, times in Counter(one.token for one in ended).items():
            if times > 1:
                yield "I7", f"job {job.id} has {times} outcomes for token {token}"
        if job.is_final and job.state is not JobState.CANCELLED and len(ended) != job.token:
            yield "I7", f"job {job.id} was claimed {job.token} times and has {len(ended)} outcomes"
        failed = sum(1 for one in ended if one.outcome == "failed")
        if failed > job.retry.attempts_max and job.id not in it.journal.retried:
            yield "I7", f"job {job.id} failed {failed} times, of {job.retry.attempts_max}"
        yield from honest(it, job, ended)


def honest(it: Judgement, job: Job, ended: list[Attempt]) -> Iterator[tuple[str, str]]:
    """What the store says of an attempt is what its handler says."""
    by_token = {run.token: run for run in it.runs.get(job.id, [])}
    for one in ended:
        run = by_token.get(one.token)
        if one.outcome == "succeeded" and (run is None or run.how != "succeeded"):
            yield "I7", f"job {job.id}: attempt {one.token} succeeded, and its handler did not"


def delays(it: Judgement) -> Iterator[tuple[str, str]]:
    """I12. A retry by hand is due at once, so jobs that an operator retried are left out."""
    tenths: Counter[int] = Counter()
    for job in it.jobs.values():
        if job.id in it.journal.retried:
            continue
        for gap, full in retries(it, job):
            if not timedelta() <= gap <= full:
                yield "I12", f"job {job.id} is due {gap} after a failure, of at most {full}"
            tenths[int(gap / full * 10)] += 1
    tenth, most = max(tenths.items(), key=lambda each: each[1], default=(0, 0))
    if tenths.total() >= SPREAD_MIN and most * 2 > tenths.total():
        yield "I12", f"of {tenths.total()} retries {most} wait for {tenth} tenths of their delay"


def retries(it: Judgement, job: Job) -> Iterator[tuple[timedelta, timedelta]]:
    """How long the next attempt after each failure was put off, and for how long at most."""
    due_at = {run.token: run.due_at for run in it.runs.get(job.id, [])}
    failures = 0
    for one in sorted(it.tables.attempts.get(job.id, []), key=lambda each: each.token):
        failures += one.outcome == "failed"
        # A later claim would be due after a loss, a release or an end that it waited for.
        if one.outcome == "failed" and one.token + 1 in due_at:
            full = min(job.retry.full_delay_after(failures), job.retry.delay_max)
            yield due_at[Token(one.token + 1)] - one.finished_at, full


def living_workers(it: Judgement) -> Iterator[tuple[str, str]]:
    """R3. Only where each heartbeat that is sent arrives, but for outages, which prove nothing."""
    options = it.options
    is_bad_line = (
        options.hangs
        or options.delays
        or options.late_answers
        or options.errors + options.lost_answers > BAD_LINE
    )
    if is_bad_line or options.store_clock_steps or options.isolated is not None:
        return
    for one in (one for ended in it.tables.attempts.values() for one in ended):
        at = (one.finished_at - EPOCH).total_seconds()
        since = at - 2 * options.lease - HANG_SECONDS
        if one.outcome == "lost" and one.worker is not None and one.worker in it.journal.lives:
            halts = it.journal.halts.get(one.worker, ())
            if not any(begin < at + it.lag and end > since for begin, end in halts):
                yield "R3", f"job {one.job_id} was lost at {at:.3f}, and {one.worker} lives"


def unique_keys(it: Judgement) -> Iterator[tuple[str, str]]:
    """I8. The jobs of one key lie one after the other."""
    by_key: dict[str, list[Job]] = defaultdict(list)
    for job in it.jobs.values():
        if job.unique is not None and job.id not in it.journal.retried:
            by_key[job.unique].append(job)
    for key, jobs in by_key.items():
        jobs.sort(key=lambda job: job.id)
        live = [job for job in jobs if not job.is_final]
        if len(live) > 1:
            yield "I8", f"key {key} is held by {len(live)} live jobs"
        yield from shared_key(it, key, jobs)


def shared_key(it: Judgement, key: str, jobs: list[Job]) -> Iterator[tuple[str, str]]:
    """Two jobs of one key whose handlers ran within each other's lives."""
    spans: list[tuple[float, float, str]] = []
    for job in jobs:
        runs = it.runs.get(job.id, [])
        ends = [
            run.ended
            for run in runs
            if run.how == "succeeded" and run.ended is not None and not stood_still(it, run)
        ]
        if ends:
            spans.append((min(run.at for run in runs), max(ends), job.id))
    spans.sort()
    for (_, end, one), (begin, _, other) in pairwise(spans):
        if begin < end:
            yield "I8", f"key {key}: job {other} ran before job {one} had ended"


def stood_still(it: Judgement, run: Attempted) -> bool:
    """Whether the attempt was given up while its process did not run.

    Its handler goes on beside whatever came after the job; its outcome is refused by the token.
    """
    given_up = [
        one
        for one in it.tables.attempts.get(JobId(run.job), [])
        if one.token == run.token and one.outcome == "lost" and one.worker is not None
    ]
    ended = math.inf if run.ended is None else run.ended
    return any(
        begin < ended and end > run.at
        for one in given_up
        for begin, end in it.journal.halts.get(str(one.worker), ())
    )


def due_times(it: Judgement) -> Iterator[tuple[str, str]]:
    """I9. Where the store's clock was set, nobody can say what it showed at the claim."""
    if it.options.store_clock_steps:
        return
    # Between two readings of the store's clock a process relies on the rate of its own.
    drifted = it.options.drift * 2 * (FOLLOW_PERIOD + HANG_SECONDS + it.options.outage_max)
    early = timedelta(seconds=EARLY_SECONDS + drifted)
    for run in it.journal.attempts:
        if run.store_time < run.due_at - early:
            yield "I9", f"job {run.job} began at {run.store_time:%H:%M:%S.%f}, due {run.due_at}"


def cancelled_jobs(it: Judgement) -> Iterator[tuple[str, str]]:
    """I10. A retry by an operator ends the cancel, but not one of the job that it comes after."""
    for id, (at, token) in it.journal.cancelled.items():
        job = it.jobs.get(id)  # type: ignore[call-overload]
        if id in it.journal.retried:
            continue
        for run in it.runs.get(id, []):
            if run.token > token or (it.is_calm and run.at > at + it.cancel_seconds):
                yield "I10", f"job {id} was cancelled at {at:.3f} and begun at {run.at:.3f}"
        if job is not None:
            yield from forgotten_cancel(it, job, at)


def forgotten_cancel(it: Judgement, job: Job, at: float) -> Iterator[tuple[str, str]]:
    """A cancel that came before the success of the job is in its row."""
    if not job.is_final:
        yield "I10", f"job {job.id} was cancelled and is {job.state}"
    won = [run for run in it.runs.get(job.id, []) if run.ended is not None and run.ended < at]
    is_recorded = job.cancel_reason is not None or job.state is JobState.CANCELLED
    if not is_recorded and not won:
        yield "I10", f"job {job.id} was cancelled at {at:.3f}, which its row does not say"


def order(it: Judgement) -> Iterator[tuple[str, str]]:
    """I11."""
    for job in it.jobs.values():
        for before in job.after:
            first = it.runs.get(job.id, [])
            won = [run for run in it.runs.get(before, []) if run.how == "succeeded"]
            if not first or before in it.journal.retried or job.id in it.journal.retried:
                continue
            if not won or min(run.at for run in first) < min(run.ended or 0.0 for run in won):
                yield "I11", f"job {job.id} began before the end of {before}"


def counts(it: Judgement) -> Iterator[tuple[str, str]]:
    """I16 and I18: the counts and the indexes, against a count of the rows."""
    tables = it.tables
    states = Counter(job.state for job in tables.jobs.values())
    if states != +tables.counts:
        yield "I16", f"the rows are {dict(states)}, and the counts {dict(tables.counts)}"
    leases: dict[str, set[str]] = defaultdict(set)
    for job in tables.jobs.values():
        if job.worker is not None:
            leases[job.worker].add(job.id)
        if (job.worker is not None) is not (job.state is JobState.RUNNING):
            yield "I18", f"job {job.id} is {job.state} and has the worker {job.worker}"
    if leases != {worker: ids for worker, ids in tables.leases.items() if ids}:
        yield "I18", "the leases do not agree with the rows"
    running = Counter(job.queue for job in tables.jobs.values() if job.state is JobState.RUNNING)
    counted = {queue: number for (queue, group), number in tables.running.items() if not group}
    if dict(running) != counted:
        yield "I18", f"queues run {dict(running)}, and are counted as {counted}"
    holders = {
        job.unique: job.id for job in tables.jobs.values() if job.unique and not job.is_final
    }
    if holders != tables.holders:
        yield "I18", f"unique keys are held by {holders}, and indexed as {tables.holders}"


CHECKS: Final[tuple[Check, ...]] = (
    accepted_jobs,
    occurrences,
    tokens,
    effects,
    attempts,
    delays,
    living_workers,
    unique_keys,
    due_times,
    cancelled_jobs,
    order,
    counts,
)
