"""Sections of pages that are asked for alone, without a browser."""

import re

import pytest
import pytest_asyncio

from dashboard.office import DashboardOffice
from interfaces.rest_client import RestClient
from onbeat.operations.tables.jobs import JOB_ENQUEUE

PARTS = {
    "/": "now",
    "/jobs": "list",
    "/jobs?state=waiting": "list",
    "/queues": "list",
    "/workers": "list",
    "/schedules": "list",
}


@pytest.fixture
def office() -> DashboardOffice:
    return DashboardOffice(keys=())


@pytest_asyncio.fixture
async def client(office: DashboardOffice) -> RestClient:
    await office.harness.ask(JOB_ENQUEUE, {"task": "<b>mail</b>", "queue": "q"})
    return office.client()


def asked(path: str, part: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}part={part}"


@pytest.mark.parametrize(("path", "part"), PARTS.items())
async def test_a_part_equals_its_page(client: RestClient, path: str, part: str) -> None:
    whole, alone = await client.get(path), await client.get(asked(path, part))
    assert alone.status == 200
    assert alone.headers["content-type"].startswith("text/html")
    assert alone.headers["content-security-policy"] == whole.headers["content-security-policy"]
    assert alone.body.startswith(b'<section class="part" id="part-')
    assert alone.body.endswith(b"</section>")
    assert alone.body in whole.body
    assert b"<b>mail" not in alone.body


async def test_one_job_and_one_flow_are_parts_that_name_themselves(
    office: DashboardOffice, client: RestClient
) -> None:
    jobs = [{"task": "a", "name": "a"}, {"task": "b", "after": ["a"]}]
    made = await office.harness.ask(JOB_ENQUEUE, {"jobs": jobs})
    job = made["ids"][0]
    for path, part, on in (
        (f"/jobs/{job}", "job", f"job:{job}"),
        (f"/flows/{made['flow']}", "flow", f"flow:{made['flow']}"),
    ):
        alone = await client.get(asked(path, part))
        assert f'data-on="{on}"'.encode() in alone.body


async def test_a_part_that_is_as_it_was_is_not_sent_again(
    office: DashboardOffice, client: RestClient
) -> None:
    first = await client.get("/queues?part=list")
    etag = first.headers["etag"]
    for sent in (etag, f'"other", {etag}', f'{etag},"other"'):
        again = await client.get("/queues?part=list", if_none_match=sent)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == etag
    assert (await client.get("/queues?part=list", if_none_match='"x"')).status == 200
    await office.harness.ask(JOB_ENQUEUE, {"task": "mail", "queue": "q"})
    changed = await client.get("/queues?part=list", if_none_match=etag)
    assert changed.status == 200
    assert changed.headers["etag"] != etag


@pytest.mark.parametrize("path", ["/queues?part=nothing", "/help?part=list", "/queues?part=%3Cb"])
async def test_an_unknown_part_is_refused_in_words(client: RestClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status == 422
    assert b"this page has no" in answer.body
    assert b"<b&" not in answer.body


async def test_a_part_of_a_page_that_fails_is_the_error(client: RestClient) -> None:
    answer = await client.get("/jobs/01900000-0000-7000-8000-00000000ffff?part=job")
    assert answer.status == 404
    assert b"<!DOCTYPE html>" in answer.body
    assert (await client.get("/queues?part=list&foo=1")).status == 422


async def test_the_part_is_no_filter_of_the_page(client: RestClient) -> None:
    answer = await client.get("/jobs?part=list&state=waiting")
    assert not re.search(rb"[?&;]part=", answer.body)
    assert b"state=waiting" in answer.body
