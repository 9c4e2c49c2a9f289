"""The operations of queues."""

from onbeat.model.queue import Queue
from onbeat.operations.context import OperationContext
from onbeat.wire.limits import changed_limits
from onbeat.wire.queues import QueueAnswer, QueuesAnswer, QueueState, queue_answer
from onbeat.wire.requests import LimitQueue, ListQueues, QueueByName
from onbeat.wire.values import read_queue_name


async def list_queues(context: OperationContext, request: ListQueues) -> QueuesAnswer:
    """Queues that have live jobs, are paused or are limited, by name."""
    queues = await context.store.queues(context.clock.now())
    first = (request.page - 1) * request.limit
    return QueuesAnswer(
        queues=tuple(map(queue_answer, queues[first : first + request.limit])),
        page=request.page,
        limit=request.limit,
        total=len(queues),
    )


async def pause_queue(context: OperationContext, request: QueueByName) -> QueueState:
    """Stop claiming its jobs until it is resumed; running jobs continue."""
    return await set_paused(context, request.name, paused=True)


async def resume_queue(context: OperationContext, request: QueueByName) -> QueueState:
    return await set_paused(context, request.name, paused=False)


async def set_paused(context: OperationContext, name: str, *, paused: bool) -> QueueState:
    await context.store.pause_queue(read_queue_name(name, "name"), paused=paused)
    return QueueState(name=name, paused=paused)


async def limit_queue(context: OperationContext, request: LimitQueue) -> QueueAnswer:
    """Change the given limits; they hold over all workers from the next claim on."""
    name = read_queue_name(request.name, "name")
    before = await get_queue(context, name)
    await context.store.limit_queue(name, changed_limits(before.limits, request.limits))
    return queue_answer(await get_queue(context, name))


async def get_queue(context: OperationContext, name: str) -> Queue:
    queues = await context.store.queues(context.clock.now())
    return next((queue for queue in queues if queue.name == name), Queue(name=name))
