"""The payloads of sensitive jobs, which go when the jobs end."""

from collections.abc import Iterable

from onbeat.model.job import Job
from onbeat.rules.payloads import without_payload
from onbeat.stores.sql.session import Session


def asks_to_drop(spec: str) -> bool:
    """Whether the stored definition may be of a sensitive job; few are."""
    return '"sensitive"' in spec


async def drop_payloads(session: Session, ended: Iterable[Job]) -> None:
    """Store the definitions of sensitive jobs that have just ended without their payloads."""
    form = session.forms.jobs
    spec_at = [*form.new].index("spec")
    rows = [(job.id, form.row(without_payload(job))[spec_at]) for job in ended if job.sensitive]
    await session.update_rows("finished", {"id": "uuid"}, {"spec": "text"}, rows)
