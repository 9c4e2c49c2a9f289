"""Fan-out: jobs that running jobs send, fenced by the sender's lease."""

from msgspec.structs import replace

from onbeat.model.job import Job
from onbeat.ports.store import SentJobs
from onbeat.stores.memory.enqueue import add_new, find_existing, resolve
from onbeat.stores.memory.leases import find_leased
from onbeat.stores.memory.tables import Tables


def new_jobs(tables: Tables, sent: SentJobs) -> list[Job]:
    """Only new jobs are resolved: the jobs that stored ones waited for may be deleted since."""
    if find_leased(tables, sent.sender, sent.token) is None:
        return []
    return resolve(tables, [job for job in sent.jobs if job.id not in tables.jobs])


def send_one(tables: Tables, sent: SentJobs) -> bool:
    sender = find_leased(tables, sent.sender, sent.token)
    if sender is None:
        return False
    for job in new_jobs(tables, sent):
        if job.id not in tables.jobs and find_existing(tables, job) is None:
            add_new(tables, job)
    if sent.wait is not None:
        tables.events.waits.put(sent.wait)
    tables.put_job(
        replace(
            sender,
            cursor=sender.cursor if sent.cursor is None else sent.cursor,
            progress=sender.progress if sent.progress is None else sent.progress,
        )
    )
    return True
