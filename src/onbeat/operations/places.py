"""The verbs of queues, workers and figures."""

from onbeat.operations.operator import Operator
from onbeat.wire.places import (
    QueuesAnswer,
    QueueState,
    StatsAnswer,
    WorkersAnswer,
    queue_answer,
    stats_answer,
    worker_answer,
)
from onbeat.wire.requests import Nothing, QueueByName
from onbeat.wire.values import read_name


async def list_queues(operator: Operator, _request: Nothing) -> QueuesAnswer:
    """Queues that have live jobs or are paused."""
    queues = await operator.store.queues(operator.clock.now())
    return QueuesAnswer(tuple(map(queue_answer, queues)))


async def pause_queue(operator: Operator, request: QueueByName) -> QueueState:
    """No job of it is given out until it is resumed; what runs, runs on."""
    return await switch(operator, request.name, paused=True)


async def resume_queue(operator: Operator, request: QueueByName) -> QueueState:
    return await switch(operator, request.name, paused=False)


async def switch(operator: Operator, name: str, *, paused: bool) -> QueueState:
    await operator.store.pause_queue(read_name(name, "name"), paused=paused)
    return QueueState(name=name, paused=paused)


async def list_workers(operator: Operator, _request: Nothing) -> WorkersAnswer:
    now = operator.clock.now()
    workers = await operator.store.workers()
    return WorkersAnswer(tuple(worker_answer(worker, now) for worker in workers))


async def show_stats(operator: Operator, _request: Nothing) -> StatsAnswer:
    """Counts over the whole store."""
    return stats_answer(await operator.store.stats(operator.clock.now()))
