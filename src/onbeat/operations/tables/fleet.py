"""Queues, workers, and their figures."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import queues, stats, workers
from onbeat.operations.tables.operation import Operation
from onbeat.wire.queues import QueueAnswer, QueueDetail, QueuesAnswer, QueueState
from onbeat.wire.requests import (
    LimitQueue,
    ListQueues,
    ListWorkers,
    NoParams,
    PauseQueue,
    QueueByName,
)
from onbeat.wire.stats import StatsAnswer
from onbeat.wire.workers import WorkersAnswer

QUEUE_LIST: Final = Operation(
    name="queue.list",
    id="listQueues",
    summary="Queues that have live jobs, are paused or are limited",
    function=queues.list_queues,
    request=ListQueues,
    answer=QueuesAnswer,
    method="GET",
    path="/api/queues",
    scope=Scope.READ,
)

QUEUE_SHOW: Final = Operation(
    name="queue.show",
    id="getQueue",
    summary="Show a queue: its load, its limits, who paused it, and its groups",
    function=queues.show_queue,
    request=QueueByName,
    answer=QueueDetail,
    method="GET",
    path="/api/queues/{name}",
    scope=Scope.READ,
)

QUEUE_PAUSE: Final = Operation(
    name="queue.pause",
    id="pauseQueue",
    summary="Stop starting jobs of a queue",
    function=queues.pause_queue,
    request=PauseQueue,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/pause",
    body="why",
    body_required=False,
    scope=Scope.OPERATE,
)

QUEUE_RESUME: Final = Operation(
    name="queue.resume",
    id="resumeQueue",
    summary="Start jobs of a queue again",
    function=queues.resume_queue,
    request=QueueByName,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/resume",
    scope=Scope.OPERATE,
)

QUEUE_LIMIT: Final = Operation(
    name="queue.limit",
    id="limitQueue",
    summary="Limit how many jobs of a queue run at once and how often they start",
    function=queues.limit_queue,
    request=LimitQueue,
    answer=QueueAnswer,
    method="PUT",
    path="/api/queues/{name}",
    body="limits",
    scope=Scope.OPERATE,
)

WORKER_LIST: Final = Operation(
    name="worker.list",
    id="listWorkers",
    summary="Workers, what they can run, what they run now and whether they are alive",
    function=workers.list_workers,
    request=ListWorkers,
    answer=WorkersAnswer,
    method="GET",
    path="/api/workers",
    scope=Scope.READ,
)

STATS_SHOW: Final = Operation(
    name="stats.show",
    id="getStats",
    summary="Counts of jobs and schedules by state",
    function=stats.show_stats,
    request=NoParams,
    answer=StatsAnswer,
    method="GET",
    path="/api/stats",
    scope=Scope.READ,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    QUEUE_LIST,
    QUEUE_SHOW,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    QUEUE_LIMIT,
    WORKER_LIST,
    STATS_SHOW,
)
