"""The text of the column `spec`."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import NO_KWARGS, HandlerTarget
from onbeat.stores.mysql import rows as mysql
from onbeat.stores.postgres import rows as postgres
from onbeat.stores.sql.specs import SpecForm
from onbeat.stores.sql.values import to_json
from onbeat.stores.sqlite import rows as sqlite

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLAIN = Job(id=JobId("a"), target=HandlerTarget("work"), created_at=NOON, due_at=NOON)
FULL = msgspec.structs.replace(
    PLAIN,
    retry=RetryPolicy(attempts_max=9),
    timeout=timedelta(seconds=90),
    expires_at=NOON,
    after=(JobId("b"),),
    labels={"k": "v"},
    group="g",
)
REST = (
    '"retry":{"attempts_max":9},"timeout":"PT90S","expires_at":"2030-01-01T12:00:00Z",'
    '"after":["b"],"labels":{"k":"v"},"group":"g"}'
)
HEAD = '{"target":{"kind":"task","task":"work"},"created_at":"2030-01-01T12:00:00Z",'


def test_each_database_keeps_what_it_has_no_columns_for() -> None:
    assert postgres.spec_of(FULL) == "{" + REST
    assert mysql.spec_of(FULL) == sqlite.spec_of(FULL) == HEAD + REST
    assert postgres.spec_of(PLAIN) == "{}"
    assert mysql.spec_of(PLAIN) == sqlite.spec_of(PLAIN) == HEAD + '"retry":{}}'


@pytest.mark.parametrize("job", [PLAIN, FULL])
def test_what_is_read_is_what_was_written(job: Job) -> None:
    form = SpecForm(JobSpec, ("id",))
    fields = form.decode(to_json(form.pack(job)))
    assert Job(id=job.id, **fields) == job


def test_equal_jobs_have_equal_text() -> None:
    form = SpecForm(JobSpec, ("id",))
    other = msgspec.structs.replace(PLAIN, retry=RetryPolicy())
    assert other.retry is not PLAIN.retry
    assert to_json(form.pack(PLAIN)) == to_json(form.pack(other))


def test_fields_in_another_form_come_first() -> None:
    form = SpecForm(JobSpec, {*JobSpec.__struct_fields__} - {"group"}, postgres.SpecParts)
    spec = form.pack(FULL, msgspec.Raw(b"[7]"), NO_KWARGS, *[None] * 4, postgres.PLAIN.retry)
    assert to_json(spec) == '{"args":[7],"group":"g"}'


def test_a_field_of_a_newer_version_is_left_out() -> None:
    assert SpecForm(JobSpec, ("id",)).decode('{"colour":"red","group":"g"}') == {"group": "g"}
