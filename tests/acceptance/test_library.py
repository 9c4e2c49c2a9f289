"""What a program meets that uses Onbeat inside itself."""

from datetime import timedelta

import pytest

from onbeat import Context, Onbeat, Retry, Snooze

AT = "2026-03-28T23:00+01:00"


@pytest.mark.parametrize("delay", [timedelta(seconds=90), 90, 90.0, "90s", "1m30s", "PT90S"])
def test_a_handler_snoozes_by_any_span_and_no_attempt_is_spent(delay):
    beat = Onbeat("memory://")
    attempts = []

    @beat.task("naps")
    async def naps(context: Context) -> None:
        attempts.append(context.attempt)
        if len(attempts) == 1:
            raise Snooze(delay)

    with beat.testing(at=AT) as trial:
        job = naps.send()
        trial.advance("89s")
        assert attempts == [1]
        trial.advance("1s")
        assert attempts == [1, 1]
        assert job.result() is None


def test_a_snooze_that_is_no_span_is_a_failed_attempt_that_says_so():
    beat = Onbeat("memory://")

    @beat.task("naps", retry=Retry(attempts_max=1))
    async def naps() -> None:
        raise Snooze("a while")

    with beat.testing(at=AT) as trial:
        job = naps.send()
        trial.drain()
        state = job.state()
        assert (state.state, state.reason) == ("failed", "attempts used up")
        assert state.error.startswith("the delay of Snooze must be a span such as 90s")
