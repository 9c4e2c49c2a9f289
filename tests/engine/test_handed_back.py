"""The leases that a worker remembers to have handed back."""

from msgspec.structs import replace

from onbeat.engine.handed_back import HandedBack
from onbeat.model.ids import JobId, Token
from onbeat.model.limits import HANDED_BACK_KEPT
from onbeat.testing.build import a_job, an_id


def test_a_lease_is_known_by_its_job_and_its_token() -> None:
    job = a_job()
    leases = HandedBack()
    assert not leases
    leases.add((job.id, job.token))
    assert leases
    assert job in leases
    assert replace(job, token=Token(job.token + 1)) not in leases
    assert a_job() not in leases


def test_the_last_leases_are_kept() -> None:
    first, second = a_job(), a_job()
    leases = HandedBack()
    for job in (first, second):
        leases.add((job.id, job.token))
    for _ in range(HANDED_BACK_KEPT - 2):
        leases.add((JobId(an_id()), Token(1)))
    assert first in leases
    leases.add((JobId(an_id()), Token(1)))
    assert first not in leases
    assert second in leases
