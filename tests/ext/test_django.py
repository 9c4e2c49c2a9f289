"""The example of Django, with the real framework: sending, the admin, tasks, the commands."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from onbeat import Onbeat
from stores.postgres import server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "django"
AT = "2026-11-23T09:00Z"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The modules of the example, loaded by Django in this process, on a file of this test."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SHOP_FOLDER", str(tmp_path_factory.mktemp("shop")))
    patch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    patch.setenv("TZ", "UTC")  # Django sets the zone of the process, which other tests share
    patch.syspath_prepend(str(EXAMPLE))
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    import shop.models
    import shop.tasks

    yield shop
    from django.db import connections

    from onbeat.ext.django import beat

    beat.close()
    connections.close_all()
    patch.undo()
    time.tzset()


@pytest.fixture
def trial(shop: Any) -> Iterator[Any]:
    from onbeat.ext.django import beat

    with beat.testing(at=AT) as trial:
        yield trial


@pytest.fixture
def client(shop: Any) -> Any:
    from django.test import Client

    return Client(raise_request_exception=False)


def test_a_job_is_stored_with_the_commit_and_its_handler_uses_the_models(
    shop: Any, trial: Any, client: Any
) -> None:
    answer = client.post("/orders", {"item": "lamp"})
    assert answer.status_code == 200
    trial.assert_enqueued(shop.tasks.confirm, args=[answer.json()["order"]], queue="mail")
    trial.drain()
    assert shop.models.Order.objects.get(id=answer.json()["order"]).confirmed


def test_after_a_rollback_there_is_no_job(shop: Any, trial: Any, client: Any) -> None:
    assert client.post("/orders", {"item": "nothing"}).status_code == 500
    trial.assert_enqueued(shop.tasks.confirm, times=0)
    assert not shop.models.Order.objects.filter(item="nothing").exists()


def test_a_job_sent_for_the_commit_has_its_id_before(shop: Any, trial: Any) -> None:
    from django.db import transaction

    from onbeat import NotFound

    with transaction.atomic():
        jobs = shop.tasks.beat.send([shop.tasks.confirm.call(n) for n in (1, 2)])
        with pytest.raises(NotFound):
            jobs[0].info()
    assert [job.result() for job in jobs] == ["order 1 is confirmed", "order 2 is confirmed"]


def test_connections_are_closed_after_each_job(shop: Any, trial: Any, monkeypatch: Any) -> None:
    """With CONN_MAX_AGE 0 a request closes its own one too; nobody else does it for a job."""
    from django.db import connection
    from django.db.backends.base.base import BaseDatabaseWrapper

    closed = []
    plain = BaseDatabaseWrapper.close

    def close(self: Any) -> None:
        closed.append(self.connection is not None)
        plain(self)

    monkeypatch.setattr(BaseDatabaseWrapper, "close", close)
    connection.close()
    closed.clear()
    shop.tasks.confirm.send(1).result()
    trial.advance("1d")
    trial.assert_ran("shop.tasks.count_orders", times=1)
    assert closed.count(True) == 2


# The admin


@pytest.fixture
def people(shop: Any) -> Iterator[Any]:
    from django.contrib.auth.models import Permission, User

    def person(*permissions: str) -> Any:
        from django.test import Client

        user = User.objects.create_user(f"user-{User.objects.count()}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client()
        client.force_login(user)
        return client

    yield person
    User.objects.all().delete()


def test_the_admin_lists_jobs_and_shows_one_with_its_attempts(
    shop: Any, trial: Any, people: Any
) -> None:
    job = shop.tasks.beat.send(shop.tasks.confirm.call(7).with_options(delay="1h"))
    staff = people("view_job")
    index = staff.get("/admin/").content.decode()
    assert "/admin/onbeat/jobrecord/" in index
    listed = staff.get("/admin/onbeat/jobrecord/?task=order.*&state=waiting").content.decode()
    assert job.id in listed
    assert "order.confirm" in listed
    assert job.id not in staff.get("/admin/onbeat/jobrecord/?state=failed").content.decode()
    assert "state" in staff.get("/admin/onbeat/jobrecord/?state=faild").content.decode()
    shown = staff.get(f"/admin/onbeat/jobrecord/{job.id}/").content.decode()
    assert "due" in shown.lower()
    trial.advance("1h")
    assert "succeeded" in staff.get(f"/admin/onbeat/jobrecord/{job.id}/").content.decode()
    unknown = "01890000-0000-7000-8000-000000000000"
    assert staff.get(f"/admin/onbeat/jobrecord/{unknown}/").status_code == 404


def test_the_admin_retries_and_cancels_by_permission(shop: Any, trial: Any, people: Any) -> None:
    job = shop.tasks.beat.send(shop.tasks.confirm.call(7).with_options(delay="1h"))
    where = f"/admin/onbeat/jobrecord/{job.id}/"
    assert people().get(where).status_code == 403
    viewer, operator = people("view_job"), people("view_job", "cancel_job", "retry_job")
    assert "Cancel</button>" not in viewer.get(where).content.decode()
    assert viewer.post(f"{where}cancel/").status_code == 403
    assert "Cancel</button>" in operator.get(where).content.decode()
    assert operator.get(f"{where}cancel/").status_code == 405
    assert operator.post(f"{where}cancel/").status_code == 302
    assert job.info().state.value == "cancelled"
    assert "in the admin" in operator.get(where).content.decode()
    assert operator.post(f"{where}retry/", follow=True).status_code == 200
    assert job.info().state.value == "waiting"
    trial.drain()
    refused = operator.post(f"{where}cancel/", follow=True).content.decode()
    assert "has succeeded already" in refused


def test_an_action_needs_the_proof_that_a_page_of_the_admin_sent_it(
    shop: Any, trial: Any, people: Any
) -> None:
    job = shop.tasks.beat.send(shop.tasks.confirm.call(7).with_options(delay="1h"))
    operator = people("view_job", "cancel_job")
    operator.handler.enforce_csrf_checks = True
    assert operator.post(f"/admin/onbeat/jobrecord/{job.id}/cancel/").status_code == 403
    assert job.info().state.value == "waiting"


def test_the_admin_has_no_way_in_without_a_log_in(shop: Any, trial: Any, client: Any) -> None:
    assert client.get("/admin/onbeat/jobrecord/").status_code == 302


# Tasks of Django itself


def test_a_task_of_django_runs_as_a_job(shop: Any, trial: Any) -> None:
    from django_tasks import TaskResultStatus

    result = shop.tasks.report.enqueue(2026)
    assert result.status == TaskResultStatus.READY
    trial.drain()
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value.endswith("orders in 2026")
    assert result.args == [2026]
    assert result.attempts == 1
    assert shop.tasks.report.get_result(result.id).id == result.id
    assert trial.ran_of("shop.tasks.report")[0].job.queue == "reports"


def test_a_task_of_django_waits_until_it_may_run_and_larger_priorities_go_first(
    shop: Any, trial: Any
) -> None:
    later = shop.tasks.report.using(run_after=trial.now + timedelta(hours=1), priority=50)
    result = later.enqueue(2027)
    job = shop.tasks.beat.jobs.get(result.id)
    assert job.run_at == trial.now + timedelta(hours=1)
    assert job.priority == -50
    assert later.get_result(result.id).task.priority == 50


def test_what_is_no_task_of_django_has_no_result(shop: Any, trial: Any) -> None:
    from django_tasks.exceptions import TaskResultDoesNotExist

    job = shop.tasks.confirm.send(1)
    for id in (job.id, "nonsense", "01890000-0000-7000-8000-000000000000"):
        with pytest.raises(TaskResultDoesNotExist):
            shop.tasks.report.get_result(id)


async def test_coroutines_contexts_and_errors_of_tasks_of_django(shop: Any) -> None:
    from ext import django_jobs  # tasks belong to modules
    from onbeat.ext.django import beat

    async with beat.testing(at=AT) as trial:
        good: Any = await django_jobs.count.aenqueue(3, word="a")
        bad = await django_jobs.divide.aenqueue(1, 0)
        await trial.aadvance("2h")
        await good.arefresh()
        await bad.arefresh()
    assert good.return_value == "aaa in attempt 1"
    assert bad.status == "FAILED"
    assert bad.attempts == 3
    assert bad.errors[0].exception_class is ZeroDivisionError
    assert "return a / b" in bad.errors[0].traceback


def test_an_isolated_task_finds_its_project_in_its_own_process(shop: Any, trial: Any) -> None:
    from ext import django_jobs

    shop.models.Order.objects.create(item="isolated")
    job = django_jobs.count_alone.send()
    trial.drain()
    assert job.info().error is None
    assert job.result(60) == shop.models.Order.objects.count()


# Settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "SQLite, of which Django and Onbeat have a copy each"),
        ({"stor": "memory://"}, "unknown field `stor`"),
        ({"store": 5}, "Expected `str \\| null`"),
        ({"database": "other"}, "DATABASES has no 'other'"),
        ({"store": "memory://", "options": {"drain_timeout": 1}}, "made by onbeat.Options"),
    ],
)
def test_wrong_settings_are_named(shop: Any, settings: Any, given: Any, message: str) -> None:
    from django.core.exceptions import ImproperlyConfigured

    from onbeat.ext.django.configuration import configuration

    settings.ONBEAT = given
    with pytest.raises(ImproperlyConfigured, match=message):
        _ = configuration().url


@pytest.fixture
def settings(shop: Any) -> Iterator[Any]:
    from django.test import override_settings

    with override_settings() as _:
        from django.conf import settings

        yield settings


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        (
            {"NAME": "a b", "USER": "me", "PASSWORD": "p@/", "HOST": "db", "PORT": 5433},
            "postgresql://me:p%40%2F@db:5433/a%20b",
        ),
        ({"NAME": "x", "USER": "me", "HOST": "/run/pg"}, "postgresql://me@/x?host=%2Frun%2Fpg"),
        ({"NAME": "x", "HOST": "::1"}, "postgresql://[::1]/x"),
    ],
)
def test_the_url_of_a_database(shop: Any, database: Any, url: str) -> None:
    from onbeat.ext.django.configuration import server_url

    assert server_url("postgresql", database) == url


# Commands, in processes of their own


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'src'}",
        "SHOP_FOLDER": str(folder),
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        **more,
    }


def manage(folder: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE / "manage.py"), *arguments],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_runs_the_tasks_of_the_project(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "--verbosity", "0")
    manage(tmp_path, "onbeat", "job", "add", "--task", "order.confirm", "--args", "[1]")
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "manage.py"), "onbeat", "up", "--port", "0"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually_here(lambda: succeeded(tmp_path), "the job has succeeded")
    finally:
        process.terminate()
        assert process.wait(60) == 0


def succeeded(folder: Path) -> bool:
    with Onbeat(f"sqlite:///{folder / 'onbeat.db'}") as other:
        return bool(other.jobs.list(state="succeeded"))


SAME_TRANSACTION = """
import django
django.setup()
from django.db import transaction
from shop.models import Order
from shop.tasks import beat, confirm, report
from onbeat import NotFound

def order(item):
    with transaction.atomic():
        made = Order.objects.create(item=item)
        jobs.append(confirm.send(made.id))
        jobs.append(report.enqueue(2026))
        assert not transaction.get_connection().run_on_commit, "the job is in the transaction"
        if item == "nothing":
            raise ValueError(item)

jobs = []
try:
    order("nothing")
except ValueError:
    pass
for job in jobs:
    try:
        beat.jobs.get(job.id)
        raise AssertionError("a job is left of a rollback")
    except NotFound:
        pass
jobs = []
order("lamp")
with beat.started():
    assert jobs[0].result(60).endswith("is confirmed")
assert Order.objects.get().confirmed
beat.close()
"""


def test_on_postgresql_a_job_is_in_the_transaction_of_django(tmp_path: Path) -> None:
    with server.database(f"onbeat_django_{os.getpid()}") as url:
        manage(tmp_path, "migrate", "--verbosity", "0", DATABASE_URL=url)
        manage(tmp_path, "onbeat", "migrate", DATABASE_URL=url)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SAME_TRANSACTION],
            cwd=EXAMPLE,
            env=environment(tmp_path, DATABASE_URL=url),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
