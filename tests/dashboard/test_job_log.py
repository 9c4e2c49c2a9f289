"""The log of a job on its page."""

from typing import Any

from msgspec.structs import replace

from dashboard.office import DashboardOffice
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Succeeded
from onbeat.testing.store_contract.job_logs import a_line


class LogOffice(DashboardOffice):
    def __init__(self) -> None:
        super().__init__(keys=())

    async def ran(self, **fields: Any) -> Job:
        answer = await self.client().post("/api/jobs", {"task": "work"} | fields)
        assert answer.status == 201
        return await self.harness.run(Succeeded(), "work")

    async def page(self, job: Job, query: str = "") -> str:
        answer = await self.client().get(f"/jobs/{job.id}{query}")
        assert answer.status == 200, answer.body
        return answer.body.decode()


async def test_the_lines_are_shown_with_level_and_fields() -> None:
    office = LogOffice()
    job = await office.ran()
    line = a_line(job, level="warning", text="slow\nmail", fields='{"to":"ada","n":[2]}')
    await office.harness.store.add_log_lines([line])
    page = await office.page(job, "?part=log")
    assert page.startswith('<section class="part" id="part-log"')
    assert f'data-on="job:{job.id} log:{job.id}"' in page
    for text in ("<pre>slow\nmail</pre>", ">warning<", "shop.mail", "to=ada n=[2]", "2030"):
        assert text in page


async def test_one_attempt_is_shown_and_others_are_links() -> None:
    office = LogOffice()
    await office.client().post("/api/jobs", {"task": "work"})
    await office.harness.run(Failed("not yet"), "work")
    office.harness.move(hours=1)
    job = await office.harness.run(Succeeded(), "work")
    lines = [a_line(job, text="of the first"), a_line(job, 2_001, attempt=2, text="of the second")]
    await office.harness.store.add_log_lines(lines)
    last, first = await office.page(job), await office.page(job, "?attempt=1")
    assert ("of the first" in last, "of the second" in last) == (False, True)
    assert ("of the first" in first, "of the second" in first) == (True, False)
    assert f'href="/jobs/{job.id}?attempt=1"' in last
    refused = await office.client().get(f"/jobs/{job.id}?attempt=soon")
    assert refused.status in {400, 422}


async def test_a_job_without_lines_says_how_to_log() -> None:
    office = LogOffice()
    job = await office.ran()
    assert "context.log.info" in await office.page(job)
    hidden = await office.ran(sensitive=True)
    assert "lines of sensitive jobs are not kept" in await office.page(hidden)


async def test_a_callback_has_no_log() -> None:
    office = LogOffice()
    body = {"target": {"http": {"url": "https://example.org/"}}}
    answer = await office.client().post("/api/jobs", body)
    job = await office.harness.store.job(answer.json["id"])
    assert job is not None
    assert "part-log" not in await office.page(replace(job))


async def test_more_lines_than_a_page_has_are_named() -> None:
    office = LogOffice()
    job = await office.ran()
    lines = [a_line(job, number) for number in range(1, 502)]
    await office.harness.store.add_log_lines(lines)
    page = await office.page(job)
    assert f"<code>onbeat logs {job.id}</code>" in page
    assert ("line 500<" in page, "line 501<" in page) == (True, False)
