"""How many calls may be in flight to remote workers, by what these answer."""

from collections import deque
from collections.abc import Iterable
from datetime import timedelta

import pytest

from onbeat.model.ids import JobId, Token
from onbeat.rules.calls_in_flight import IN_FLIGHT_MAX, RESTART_MAX, SOON, CallsInFlight, Lease
from onbeat.testing.build import NOW, SECOND

LEASE = 100 * SECOND


def lease(number: int) -> Lease:
    return JobId(f"job {number}"), Token(1)


class Line:
    """A queue of a broker with workers that each need `seconds` for a call, and a sender.

    There is always work to send. A worker drops calls that it finds too late.
    """

    def __init__(self, workers: int, seconds: float) -> None:
        self.calls = CallsInFlight()
        self.workers, self.took = workers, seconds * SECOND
        self.now = NOW
        self.count = self.answered = 0
        self.held: dict[Lease, timedelta] = {}
        self.queue: deque[Lease] = deque()
        self.at_work: dict[Lease, timedelta] = {}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.work(self.now - NOW)
            self.send(self.now - NOW)

    def work(self, now: timedelta) -> None:
        for one in [one for one, until in self.at_work.items() if until <= now]:
            del self.at_work[one]
            self.answered += self.held.pop(one, None) is not None
        while self.queue and len(self.at_work) < self.workers:
            one = self.queue.popleft()
            if one in self.held:
                self.at_work[one] = now + self.took

    def send(self, now: timedelta) -> None:
        self.held = {one: until for one, until in self.held.items() if until >= now}
        self.calls.note_held(self.held.keys(), self.now)
        for _ in range(self.calls.room):
            self.count += 1
            self.held[lease(self.count)] = now + LEASE
            self.queue.append(lease(self.count))
            self.calls.note_sent(lease(self.count), self.now, self.now + LEASE)


def restarted() -> CallsInFlight:
    calls = CallsInFlight()
    calls.change(RESTART_MAX, NOW)
    return calls


def sent(count: int, calls: CallsInFlight | None = None) -> CallsInFlight:
    calls = calls or restarted()
    for number in range(count):
        calls.note_sent(lease(number), NOW, NOW + LEASE)
    return calls


def leases(numbers: Iterable[int]) -> set[Lease]:
    return {lease(number) for number in numbers}


def test_as_many_as_may_be_are_sent_at_first() -> None:
    """S3-A12: nothing is known of the workers."""
    assert CallsInFlight().room == IN_FLIGHT_MAX
    assert sent(IN_FLIGHT_MAX, CallsInFlight()).room == 0


def test_room_is_what_is_left() -> None:
    assert sent(RESTART_MAX - 1).room == 1
    assert sent(RESTART_MAX).room == 0


def rounds(calls: CallsInFlight, count: int, took: timedelta = SECOND) -> list[int]:
    """The numbers of rounds in each of which all calls that may be sent are sent and answered."""
    numbers, at = [], NOW
    for _ in range(count):
        numbers.append(calls.most)
        for number in range(calls.room):
            calls.note_sent(lease(number), at, at + LEASE)
        at += took
        assert calls.note_held((), at) == numbers[-1]
    return numbers


def test_the_number_doubles_while_calls_are_soon_answered_up_to_its_bound() -> None:
    first = RESTART_MAX
    numbers = [first, 2 * first, 4 * first, 8 * first, IN_FLIGHT_MAX, IN_FLIGHT_MAX]
    assert rounds(restarted(), 6, SOON * LEASE) == numbers


def test_calls_that_are_answered_later_leave_the_number() -> None:
    assert rounds(restarted(), 3, SOON * LEASE + SECOND) == [RESTART_MAX] * 3


def test_it_doubles_once_for_calls_that_were_sent_before() -> None:
    """They say how long a call took when fewer were in flight."""
    calls = sent(RESTART_MAX)
    for number in range(RESTART_MAX):
        calls.note_held(leases(range(number + 1, RESTART_MAX + number)), NOW + SECOND)
        calls.note_sent(lease(RESTART_MAX + number), NOW, NOW + LEASE)
    assert calls.most == 2 * RESTART_MAX
    calls.note_held((), NOW + 2 * SECOND)
    assert calls.most == 2 * RESTART_MAX


def test_one_late_answer_begins_the_count_anew() -> None:
    calls = sent(RESTART_MAX)
    calls.note_held(leases(range(RESTART_MAX - 1, RESTART_MAX)), NOW + SECOND)
    for number in range(RESTART_MAX - 1):
        calls.note_sent(lease(RESTART_MAX + number), NOW + SECOND, NOW + SECOND + LEASE)
    calls.note_held((), NOW + SOON * LEASE + SECOND)
    assert calls.most == RESTART_MAX


def test_answers_to_fewer_calls_than_may_be_sent_leave_the_number() -> None:
    calls = restarted()
    for _ in range(3):
        sent(RESTART_MAX - 1, calls)
        calls.note_held((), NOW + SECOND)
    assert calls.most == RESTART_MAX


@pytest.mark.parametrize("count", [1, RESTART_MAX])
def test_without_any_answer_one_call_is_left_to_try_with(count: int) -> None:
    calls = sent(count)
    calls.note_held(leases(range(1, count)), NOW + LEASE + SECOND)
    assert (calls.room, calls.most) == (int(count == 1), 1)
    calls.note_held((), NOW + LEASE + 2 * SECOND)
    assert (calls.room, calls.most) == (1, 1)


def test_silence_lasts_until_a_call_is_answered() -> None:
    calls = sent(RESTART_MAX)
    for turn in range(1, 4):
        at = NOW + 2 * turn * LEASE
        calls.note_held((), at)
        assert calls.most == 1
        calls.note_sent(lease(0), at, at + LEASE)
    calls.note_held((), at + LEASE)
    assert calls.most == RESTART_MAX


def test_after_silence_as_many_are_sent_as_before() -> None:
    calls = sent(RESTART_MAX)
    calls.note_held(leases(range(10, RESTART_MAX)), NOW + LEASE)
    calls.note_held((), NOW + LEASE + SECOND)
    assert calls.most == 9
    at = NOW + 2 * LEASE
    for number in range(9):
        calls.note_sent(lease(number), at, at + LEASE)
    calls.note_held((), at + LEASE + SECOND)
    assert calls.most == 1
    calls.note_sent(lease(0), at + 2 * LEASE, at + 3 * LEASE)
    calls.note_held((), at + 2 * LEASE + SECOND)
    assert calls.most == 9


def test_a_call_that_ends_with_its_lease_was_answered() -> None:
    calls = sent(RESTART_MAX)
    calls.note_held(leases(range(1, RESTART_MAX)), NOW + LEASE)
    assert calls.most == RESTART_MAX


def test_what_ran_out_counts_once() -> None:
    """All that were sent together run out together, but are seen to in several looks."""
    calls = sent(RESTART_MAX)
    calls.note_held(leases(range(20, RESTART_MAX)), NOW + LEASE)
    calls.note_held(leases(range(21, RESTART_MAX)), NOW + LEASE + SECOND)
    assert calls.most == 19
    calls.note_held((), NOW + LEASE + 2 * SECOND)
    assert calls.most == 19


def test_a_call_that_was_taken_before_another_is_no_sign_of_too_many() -> None:
    """It ran for longer than its lease, or its worker has died."""
    calls = sent(RESTART_MAX)
    calls.note_held(leases([0, *range(2, RESTART_MAX)]), NOW + SECOND)
    calls.note_held(leases(range(2, RESTART_MAX)), NOW + LEASE + SECOND)
    assert calls.most == RESTART_MAX
    calls.note_held(leases(range(3, RESTART_MAX)), NOW + LEASE + SECOND)
    assert calls.most < RESTART_MAX


def test_without_work_everything_begins_anew() -> None:
    """What was sent an hour ago says nothing of the workers that there are now."""
    calls = sent(RESTART_MAX)
    calls.note_held(leases(range(4, RESTART_MAX)), NOW + LEASE)
    calls.note_held((), NOW + LEASE + SECOND)
    assert calls.most == 3
    calls.note_sent(lease(0), NOW + 2 * LEASE, NOW + 3 * LEASE)
    calls.note_held((), NOW + 2 * LEASE + SECOND)
    assert calls.most == RESTART_MAX


def test_a_call_of_another_claim_is_another_call() -> None:
    calls = sent(1)
    assert calls.note_held({(JobId("job 0"), Token(2))}, NOW + SECOND) == 1


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [(1, 10), (1, 40), (1, 80), (3, 30), (20, 2), (40, 40), (50, 90), (100, 30)],
)
def test_hardly_a_call_runs_out_and_no_worker_waits(workers: int, seconds: int) -> None:
    line = Line(workers, seconds)
    line.run(600)
    count, answered = line.count, line.answered
    line.run(1_200)
    able = workers * 1_200 // seconds
    assert line.answered - answered > 0.95 * able
    assert line.count - count < 1.1 * able


def test_a_worker_that_was_away_is_soon_busy_again() -> None:
    line = Line(0, 1)
    line.run(3_600)
    assert line.count < IN_FLIGHT_MAX + 3_600 / 100
    line.workers = 20
    line.run(60)
    answered = line.answered
    line.run(60)
    assert line.answered - answered > 0.95 * 20 * 60
