"""Imports of jobs with their history from another store."""

from collections.abc import Sequence

from onbeat.ports.store import JobExport
from onbeat.rules.merge import as_imported, is_further
from onbeat.stores.memory.dependents import cascade
from onbeat.stores.memory.export import export_of
from onbeat.stores.memory.retry import still_awaited
from onbeat.stores.memory.tables import Tables


def import_jobs(tables: Tables, exports: Sequence[JobExport]) -> int:
    """Store all jobs first, then free the dependents of ended ones, then add dependencies."""
    ids = [export.job.id for export in exports if import_job(tables, export)]
    for job in [tables.jobs[id] for id in ids]:
        if job.finished_at is not None:
            tables.unblock(job.id)
            cascade(tables, {job.id: job.state}, job.finished_at)
    for job in [tables.jobs[id] for id in ids]:
        if not job.is_final:
            awaited = still_awaited(tables, job) | tables.wait_for_flow(job)
            tables.put_job(tables.add_dependencies(job, awaited))
    return len(ids)


def import_job(tables: Tables, export: JobExport) -> bool:
    """Store the exported job, without its dependencies, if it is further on."""
    job = as_imported(export.job)
    here = export_of(tables, job.id) if job.id in tables.jobs else None
    if not is_further(export, here):
        return False
    if not job.is_final and tables.holders.get(job.unique or "", job.id) != job.id:
        return False
    tables.unblock(job.id)
    tables.put_job(job)
    tables.attempts[job.id] = list(export.attempts)
    tables.transitions[job.id] = list(export.transitions)
    return True
