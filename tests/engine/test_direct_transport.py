import asyncio

from onbeat.testing.build import a_job
from onbeat.transports.direct import DirectTransport


async def test_jobs_arrive_in_the_order_in_which_they_were_sent() -> None:
    transport = DirectTransport(lambda: 10)
    jobs = [a_job() for _ in range(3)]
    await transport.send(jobs[:2])
    await transport.send(jobs[2:])
    assert list(await transport.receive()) == jobs


async def test_what_is_under_way_takes_room() -> None:
    transport = DirectTransport(lambda: 3)
    await transport.send([a_job(), a_job()])
    assert transport.free_slots() == 1
    await transport.send([a_job(), a_job()])
    assert transport.free_slots() == 0
    await transport.receive()
    assert transport.free_slots() == 3


async def test_who_receives_waits_for_the_next() -> None:
    transport, job = DirectTransport(lambda: 1), a_job()
    receiving = asyncio.create_task(transport.receive())
    await asyncio.sleep(0)
    assert not receiving.done()
    await transport.send([job])
    assert await receiving == (job,)
