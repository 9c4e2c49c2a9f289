"""Stores the progress that running attempts report: at heartbeats, and when their job ends."""

from collections.abc import Iterable

from onbeat.engine.running_attempt import RunningAttempt
from onbeat.ports.store import WorkerStore


async def keep_progress(store: WorkerStore, runs: Iterable[RunningAttempt]) -> None:
    """Store the newest progress of these attempts where that has not been done."""
    newest = [(run, run.unkept_progress()) for run in runs]
    unkept = [(run, progress) for run, progress in newest if progress is not None]
    if not unkept:
        return
    await store.note_progress([(run.job.id, run.job.token, progress) for run, progress in unkept])
    for run, progress in unkept:
        run.kept_progress = progress
