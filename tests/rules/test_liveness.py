from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.limits import HELD_LEASES_MAX
from onbeat.model.outcome import Evidence
from onbeat.model.worker import WorkerRecord
from onbeat.rules.liveness import (
    GAP_MAX,
    GAP_SHARE,
    STAND_IN_SHARE,
    TIMED_PROOF,
    TRUST_SHARE,
    UNPROVEN_SHARE,
    UNWATCHED,
    WRITE_SECONDS_MAX,
    BeatState,
    Watch,
    after_accepted,
    after_refused,
    holds_leases,
    in_doubt,
    is_proof,
    may_claim,
    may_end_timed,
    needs_sidecar,
    observe,
    verdicts,
    wants_proof,
)
from onbeat.testing.build import a_worker

LEASE = 15.0


def a_row(lease: float = LEASE) -> WorkerRecord:
    return a_worker(lease_seconds=lease)


def rounds(watch: Watch, row: WorkerRecord, times: Iterable[float]) -> Watch:
    """Rounds as a watcher has them whose writes succeed: it writes where it has to."""
    for at in times:
        watch = observe(watch, [row], float(at), proven=wants_proof(watch, float(at)))
    return watch


def dead_in(watch: Watch) -> set[str]:
    return set(verdicts(watch, ()))


# The watcher.


def test_a_worker_is_dead_when_its_beat_has_not_risen_for_its_lease() -> None:
    row = a_row()
    watch = rounds(UNWATCHED, row, range(16))
    assert dead_in(watch) == set()
    assert dead_in(rounds(watch, row, [16])) == {row.id}


def test_every_beat_begins_the_lease_anew() -> None:
    row = a_row()
    watch = rounds(UNWATCHED, row, range(15))
    risen = replace(row, beat=row.beat + 1)
    watch = rounds(watch, risen, range(15, 31))
    assert dead_in(watch) == set()
    assert dead_in(rounds(watch, risen, range(31, 34))) == {row.id}


def test_a_fresh_watcher_waits_a_whole_lease() -> None:
    assert dead_in(observe(UNWATCHED, [a_row(0.0)], 1e6, proven=True)) == set()


def test_silence_beyond_half_a_lease_needs_writes_of_the_watcher() -> None:
    row, watch = a_row(), UNWATCHED
    for second in range(10_000):
        watch = observe(watch, [row], float(second), proven=False)
    assert watch.signs[row.id].silence == LEASE * UNPROVEN_SHARE
    assert wants_proof(watch, 10_000.0)


def test_those_are_in_doubt_whose_silence_counts_only_with_proof() -> None:
    silent, beats = a_row(), a_row()
    watch = observe(UNWATCHED, [silent, beats], 0.0, proven=False)
    watch = observe(watch, [silent, replace(beats, beat=1)], LEASE * UNPROVEN_SHARE, proven=False)
    watch = observe(watch, [silent, replace(beats, beat=2)], LEASE, proven=False)
    assert list(in_doubt(watch, LEASE + 1)) == [silent.id]
    assert not in_doubt(UNWATCHED, LEASE)


def test_a_round_without_a_write_takes_back_what_was_proven() -> None:
    row = a_row()
    watch = rounds(UNWATCHED, row, range(16))
    watch = observe(watch, [row], 16.0, proven=False)
    assert dead_in(rounds(watch, row, range(17, 25))) == set()
    assert dead_in(rounds(watch, row, range(17, 27))) == {row.id}


def test_a_write_that_was_held_up_proves_nothing() -> None:
    assert is_proof(WRITE_SECONDS_MAX)
    assert not is_proof(WRITE_SECONDS_MAX + 0.001)


def test_a_watcher_need_not_write_while_all_beat() -> None:
    row, watch = a_row(), UNWATCHED
    for second in range(100):
        row = replace(row, beat=second // 4)
        watch = rounds(watch, row, [second])
        assert not watch.is_proven


def test_a_machine_that_slept_gives_nobody_up_on_waking() -> None:
    row = a_row()
    watch = rounds(UNWATCHED, row, [*range(6), 3600])
    assert dead_in(watch) == set()
    risen = replace(row, beat=row.beat + 1)
    assert dead_in(rounds(watch, risen, [3601])) == set()


def test_one_gap_counts_little_however_short_the_lease() -> None:
    row = a_row(2.0)
    watch = rounds(UNWATCHED, row, [0, 100])
    assert watch.signs[row.id].silence == 2.0 * GAP_SHARE


def test_slow_readings_still_find_the_dead() -> None:
    row = a_row(60.0)
    watch = rounds(UNWATCHED, row, [n * 60 for n in range(int(60 // GAP_MAX) + 2)])
    assert dead_in(watch) == set()
    assert dead_in(rounds(watch, row, [6_000])) == {row.id}


def test_a_worker_that_went_away_is_forgotten() -> None:
    row = a_row()
    watch = observe(rounds(UNWATCHED, row, range(15)), [], 15.0, proven=True)
    assert dead_in(rounds(watch, row, range(16, 32))) == set()


def test_who_is_gone_by_the_kernels_word_is_dead_at_once() -> None:
    row = a_row()
    watch = observe(UNWATCHED, [row], 0.0, proven=False)
    assert verdicts(watch, [row.id]) == {row.id: Evidence.ENDED}


def test_the_kernels_word_goes_before_silence() -> None:
    row = a_row()
    watch = rounds(UNWATCHED, row, range(30))
    assert verdicts(watch, ()) == {row.id: Evidence.SILENT}
    assert verdicts(watch, [row.id]) == {row.id: Evidence.ENDED}


def test_timed_leases_end_only_after_some_seconds_of_proof() -> None:
    watch = replace(UNWATCHED, is_overdue=True)
    assert wants_proof(watch, 0.0)
    seconds = 0
    while not may_end_timed(watch):
        watch = observe(watch, [], float(seconds), proven=True)
        seconds += 1
    assert seconds == TIMED_PROOF + 1
    assert not may_end_timed(observe(watch, [], float(seconds), proven=False))


gaps = st.floats(0.01, 120.0)
leases = st.floats(1.0, 300.0)


@given(leases, st.lists(st.tuples(gaps, st.booleans(), st.booleans()), max_size=80))
@example(LEASE, [(1.0, True, False)] * 17)
def test_silence_counts_across_rounds_in_which_the_watcher_wrote(
    lease: float, told: list[tuple[float, bool, bool]]
) -> None:
    """Of any history: a verdict has behind it half a lease of nothing but written rounds."""
    row, watch, now = a_row(lease), UNWATCHED, 0.0
    proven, wrote_before = 0.0, False
    for gap, wrote, beats in told:
        now += gap
        row = replace(row, beat=row.beat + beats)
        watch = observe(watch, [row], now, proven=wrote)
        proven = proven + gap if wrote and wrote_before and not beats else 0.0
        wrote_before = wrote
        if dead_in(watch):
            assert proven > lease * (1 - UNPROVEN_SHARE) * 0.999


@given(leases, st.lists(gaps, max_size=80))
def test_no_verdict_comes_before_the_lease_has_passed(lease: float, between: list[float]) -> None:
    row, now = a_row(lease), 0.0
    watch = observe(UNWATCHED, [row], now, proven=True)
    for gap in between:
        now += gap
        watch = rounds(watch, row, [now])
        if dead_in(watch):
            assert now > lease * 0.999


@given(leases, st.floats(0.05, 1.0))
def test_who_does_not_beat_is_found_within_the_lease_and_five_seconds(
    lease: float, share: float
) -> None:
    """Where the watcher looks once a second, or oftener for short leases, and may write."""
    row, now = a_row(lease), 0.0
    period = min(1.0, lease * GAP_SHARE) * share
    watch = observe(UNWATCHED, [row], now, proven=False)
    while not dead_in(watch):
        now += period
        watch = rounds(watch, row, [now])
    assert now <= lease + 5


@given(leases, st.lists(st.tuples(gaps, st.booleans()), max_size=60))
def test_who_beats_four_times_a_lease_is_never_dead(
    lease: float, between: list[tuple[float, bool]]
) -> None:
    """Whatever gaps the watcher has, and whether it wrote in them or not."""
    row, watch, now = a_row(lease), UNWATCHED, 0.0
    for gap, wrote in between:
        now += gap
        row = replace(row, beat=int(now / (lease / 4)))
        watch = observe(watch, [row], now, proven=wrote)
        assert not dead_in(watch)


# The worker.


def test_before_its_first_beat_a_worker_holds_nothing() -> None:
    pulse = BeatState(LEASE)
    assert not holds_leases(pulse, 0.0)
    assert not may_claim(pulse, 0.0)


def test_a_worker_trusts_its_leases_for_half_a_lease_after_an_accepted_beat() -> None:
    pulse = after_accepted(BeatState(LEASE), 10.0)
    assert holds_leases(pulse, 10.0 + LEASE * TRUST_SHARE)
    assert not holds_leases(pulse, 10.1 + LEASE * TRUST_SHARE)


def test_a_refused_beat_ends_the_claims_and_an_accepted_one_begins_them_again() -> None:
    pulse = after_refused(after_accepted(BeatState(LEASE), 10.0))
    assert holds_leases(pulse, 11.0)
    assert not may_claim(pulse, 11.0)
    assert may_claim(after_accepted(pulse, 11.0), 11.0)


@given(leases, st.floats(0, 1e6), st.lists(gaps, min_size=1, max_size=60))
def test_while_a_worker_trusts_its_leases_no_watcher_takes_them(
    lease: float, beat_at: float, between: list[float]
) -> None:
    """The watcher may have seen that last beat at any moment from then on."""
    row, now = a_row(lease), beat_at
    pulse = after_accepted(BeatState(lease), beat_at)
    watch = observe(UNWATCHED, [row], now, proven=True)
    for gap in between:
        now += gap
        watch = observe(watch, [row], now, proven=True)
        assert not (dead_in(watch) and holds_leases(pulse, now))


# The process beside the worker.


def test_it_stands_in_once_a_beat_is_overdue_and_not_for_ever() -> None:
    assert not needs_sidecar(LEASE * STAND_IN_SHARE - 0.1, LEASE, runs=True)
    assert needs_sidecar(LEASE * STAND_IN_SHARE, LEASE, runs=True)
    assert needs_sidecar(LEASE * HELD_LEASES_MAX, LEASE, runs=True)
    assert not needs_sidecar(LEASE * HELD_LEASES_MAX + 0.1, LEASE, runs=True)


@given(st.floats(0, 1e6), leases)
def test_it_never_stands_in_for_a_process_that_is_stopped_or_gone(
    silence: float, lease: float
) -> None:
    assert not needs_sidecar(silence, lease, runs=False)


def test_it_stands_in_before_anybody_may_be_called_dead() -> None:
    assert STAND_IN_SHARE < UNPROVEN_SHARE
