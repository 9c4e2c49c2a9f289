"""Recordings go from the server that made them to S3.

`add_recordings(beat, database, settings, ari)` declares `recordings.select`, with a schedule of the
same key every five minutes, and `recordings.move` on the queue `recording_tasks`. A recording has
at most one open job, `recording:ID`. A limit of the queue bounds how many are moved at once over
all workers: four, unless an operator has set another by `onbeat queue limit recording_tasks`.

An attempt that fails is counted in `relocation_attempts`. A job makes ten of them in some three
hours, a next one begins a day later; at thirty a recording is selected no more, until the count is
set back.
"""

from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backoffice.database import Database
from backoffice.recordings.ari import Ari, AriConfig, RefusedError
from backoffice.recordings.move import COMPLETED, Places, count_attempt, move
from backoffice.settings import SettingsApi
from backoffice.tasks import RECORDING_QUEUE, RecordingTask
from onbeat import Call, Context, Fail, FanOut, Onbeat, Retry, Task, cron

SELECT: Final = "recordings.select"
MOVE: Final = "recordings.move"
PORTION: Final = 500
RETRY: Final = Retry(attempts_max=10, delay="30s", delay_max="1h")
UNIQUE_FOR: Final = "1d"
RELOCATION_ATTEMPTS_MAX: Final = 30
MOVES_MAX: Final = 4
"""Each has two files of the size of its recording."""


@dataclass(frozen=True)
class Recordings:
    """Both tasks."""

    select: Task[[], AsyncIterator[Call[str]], FanOut]
    move: Task[[RecordingTask], Coroutine[Any, Any, str], str]


def add_recordings(
    beat: Onbeat, database: Database, settings: SettingsApi, ari: AriConfig
) -> Recordings:
    """Declare the selection and the move."""
    places = Places(database, settings, Ari(ari))

    @beat.task(MOVE, queue=RECORDING_QUEUE, retry=RETRY, timeout="30m")
    async def move_recording(context: Context, task: RecordingTask) -> str:
        try:
            done = await move(places, task.id)
        except Exception as error:
            await count_attempt(database, task.id)
            if isinstance(error, RefusedError):
                raise Fail(str(error), retryable=False) from error
            raise
        context.log.info("recording %d: %s", task.id, done, extra={"component": "recordings"})
        return done

    @beat.schedule(cron("*/5 * * * *", tz="UTC"), key=SELECT, overlap="skip")
    @beat.task(SELECT, retry=Retry(attempts_max=3, delay="5s"), timeout="1h")
    async def select_recordings(context: Context) -> AsyncIterator[Call[str]]:
        await limit_moves(beat)
        after = int(context.saved or 0)
        while tasks := await next_tasks(database, after):
            for task in tasks:
                key = f"recording:{task.id}"
                yield move_recording.options(unique=key, unique_for=UNIQUE_FOR).call(task)
            after = tasks[-1].id
            context.save(after)

    return Recordings(select_recordings, move_recording)


async def limit_moves(beat: Onbeat) -> None:
    """Bound what runs at once, before there is anything to run."""
    queues = {queue.name: queue for queue in await beat.queues.alist()}
    limited = queues.get(RECORDING_QUEUE)
    # The limits that are set are shown, the others are left out.
    if limited is None or not isinstance(limited.limits.concurrency, int):
        await beat.queues.alimit(RECORDING_QUEUE, concurrency=MOVES_MAX)


async def next_tasks(database: Database, after: int) -> Sequence[RecordingTask]:
    """Completed recordings with ids above `after`."""
    async with database.session() as session:
        rows = await session.rows(
            "SELECT id, status, storage_id, storage_server_ip, coalesce(trim, '') FROM recordings"
            " WHERE status = ? AND id > ? AND relocation_attempts < ? ORDER BY id LIMIT ?",
            COMPLETED,
            after,
            RELOCATION_ATTEMPTS_MAX,
            PORTION,
        )
    return [
        RecordingTask(
            id=int(id),
            status=str(status),
            storage_id=str(storage_id),
            storage_server_ip=str(server),
            trim=str(trim),
        )
        for id, status, storage_id, server, trim in rows
    ]
