"""What running jobs send, behind the fence of their own leases."""

from msgspec.structs import replace

from onbeat.ports.store import Sent
from onbeat.stores.memory.enqueueing import add_new, holder_of, refuse_unknown_predecessors
from onbeat.stores.memory.leasing import leased
from onbeat.stores.memory.tables import Tables


def refuse_unknown(tables: Tables, sent: Sent) -> None:
    """Jobs that exist were checked when they came, and what they waited for may have gone."""
    if leased(tables, sent.sender, sent.token) is not None:
        new = [job for job in sent.jobs if job.id not in tables.jobs]
        refuse_unknown_predecessors(tables, new)


def send_one(tables: Tables, sent: Sent) -> bool:
    sender = leased(tables, sent.sender, sent.token)
    if sender is None:
        return False
    for job in sent.jobs:
        if job.id not in tables.jobs and holder_of(tables, job) is None:
            add_new(tables, job)
    tables.put_job(
        replace(
            sender,
            cursor=sender.cursor if sent.cursor is None else sent.cursor,
            progress=sender.progress if sent.progress is None else sent.progress,
        )
    )
    return True
