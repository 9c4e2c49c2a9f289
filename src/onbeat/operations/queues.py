"""The operations of queues."""

from onbeat.model.limits import GROUPS_LOOK_MAX
from onbeat.model.queue import Pause, Queue
from onbeat.operations.context import OperationContext
from onbeat.operations.depths import queues_now, sample_of
from onbeat.wire.limits import changed_limits
from onbeat.wire.queues import (
    QueueAnswer,
    QueueDetail,
    QueuesAnswer,
    QueueState,
    pause_answer,
    queue_answer,
    queue_detail,
)
from onbeat.wire.requests import LimitQueue, ListQueues, PauseQueue, QueueByName
from onbeat.wire.values import read_queue_name


async def list_queues(context: OperationContext, request: ListQueues) -> QueuesAnswer:
    """Queues that have live jobs, are paused or are limited, by name."""
    sampled = await sample_of(context)
    queues = await context.store.queues(context.clock.now(), sampled)
    first = (request.page - 1) * request.limit
    return QueuesAnswer(
        queues=tuple(map(queue_answer, queues[first : first + request.limit])),
        page=request.page,
        limit=request.limit,
        total=len(queues),
        counted_at=None if sampled is None else sampled.at,
    )


async def show_queue(context: OperationContext, request: QueueByName) -> QueueDetail:
    """The queue, also one that has no jobs, and its groups."""
    name = read_queue_name(request.name, "name")
    found = await context.store.group_depths(name, GROUPS_LOOK_MAX)
    return queue_detail(await get_queue(context, name), found)


async def pause_queue(context: OperationContext, request: PauseQueue) -> QueueState:
    """Stop claiming its jobs until it is resumed; running jobs continue.

    Of a queue that is paused already the note, its author and its time are replaced.
    """
    name = read_queue_name(request.name, "name")
    note = (request.why.note or "").strip()
    pause = Pause(by=context.principal.name, at=context.clock.now(), note=note)
    await context.store.pause_queue(name, paused=True, pause=pause)
    return QueueState(name=name, paused=True, pause=pause_answer(pause))


async def resume_queue(context: OperationContext, request: QueueByName) -> QueueState:
    name = read_queue_name(request.name, "name")
    await context.store.pause_queue(name, paused=False)
    return QueueState(name=name, paused=False)


async def limit_queue(context: OperationContext, request: LimitQueue) -> QueueAnswer:
    """Change the given limits; they hold over all workers from the next claim on."""
    name = read_queue_name(request.name, "name")
    before = await get_queue(context, name)
    await context.store.limit_queue(name, changed_limits(before.limits, request.limits))
    return queue_answer(await get_queue(context, name))


async def get_queue(context: OperationContext, name: str) -> Queue:
    queues = await queues_now(context)
    return next((queue for queue in queues if queue.name == name), Queue(name=name))
