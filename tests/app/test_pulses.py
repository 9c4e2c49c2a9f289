"""`beat.pulses`: what programs read of the history."""

from onbeat import Onbeat


def test_a_program_reads_the_figures_of_its_store() -> None:
    with Onbeat("memory://") as beat:
        answer = beat.pulses.show("week", queue="mail")
        assert (answer.span, len(answer.points)) == ("week", 336)
        assert beat.pulses.queues().queues == {}


async def test_a_coroutine_reads_them_too() -> None:
    async with Onbeat("memory://") as beat:
        assert len((await beat.pulses.ashow()).points) == 360
        assert (await beat.pulses.aqueues()).queues == {}
