"""What an operator asks for: schedules, queues, the bills of the last runs, and failures."""

from typing import Any, Final

from backoffice.config import Config
from backoffice.database import Database
from onbeat import Onbeat

RUNS_MAX: Final = 12
FAILED_MAX: Final = 20


async def status_of(config: Config) -> dict[str, Any]:
    beat, database = Onbeat(config.jobs_store), Database(config.database)
    try:
        return {
            "schedules": await schedules(beat),
            "queues": await queues(beat),
            "runs": await runs(database),
            "failed": await failed(beat),
        }
    finally:
        await database.close()
        await beat.aclose()


async def schedules(beat: Onbeat) -> list[dict[str, Any]]:
    found = await beat.schedules.alist()
    return [
        {"key": each.key, "rule": each.recurrence, "status": each.status, "next_at": each.next_at}
        for each in found
    ]


async def queues(beat: Onbeat) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "waiting": each.waiting, "running": each.running, "paused": each.paused}
        for each in await beat.queues.alist()
    ]


async def runs(database: Database) -> list[dict[str, Any]]:
    """The newest invoices by run; `cents` is what they ask for, `collected` what was taken."""
    async with database.session() as session:
        rows = await session.rows(
            "SELECT run_id, count(*), sum(status = 'COMPLETE'), sum(cents), sum(cents_collected)"
            " FROM users_invoices WHERE run_id IS NOT NULL GROUP BY run_id"
            " ORDER BY max(id) DESC LIMIT ?",
            RUNS_MAX,
        )
    return [
        {
            "run_id": run_id,
            "invoices": int(invoices),
            "complete": int(complete),
            "cents": int(cents),
            "collected": int(collected),
        }
        for run_id, invoices, complete, cents, collected in rows
    ]


async def failed(beat: Onbeat) -> list[dict[str, Any]]:
    return [
        {"id": job.id, "task": job.target.task, "at": job.finished_at, "error": job.error}
        for job in await beat.jobs.alist(state="failed", limit=FAILED_MAX)
    ]
