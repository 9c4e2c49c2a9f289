"""A receiver takes a job on with 202, and reports to the address that came with the request."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from conditions import eventually
from interfaces.rest_client import Response, RestClient
from onbeat import Onbeat
from onbeat.api.asgi import build_api
from onbeat.api.key_refusals import REFUSED_MAX
from onbeat.api.options import ApiOptions
from onbeat.app.options import HttpOptions, Options
from onbeat.model.limits import REPORT_BYTES_MAX

BASE = "https://jobs.example.com/onbeat"
KEY = "k" * 32
DONE = {"outcome": "succeeded", "result": {"rows": 3}}


class Receiver:
    """A service that takes jobs on, and the API that its jobs come from."""

    def __init__(self, client: RestClient, url: str, addresses: list[str | None]) -> None:
        self.client = client
        self.url = url
        self.addresses = addresses

    async def send(self, **body: Any) -> str:
        job = {"target": {"http": {"url": self.url, "method": "POST"}}, "timeout": 600, **body}
        made = await self.client.post("/api/jobs", job, x_api_key=KEY)
        assert made.status == 201, made.json
        return str(made.json["id"])

    async def job(self, id: str) -> dict[str, Any]:
        return dict((await self.client.get(f"/api/jobs/{id}", x_api_key=KEY)).json)

    async def taken_on(self, **body: Any) -> tuple[str, str]:
        """A job that is held by the receiver, and the path of its address."""
        seen = len(self.addresses)
        id = await self.send(**body)

        async def held() -> bool:
            return (await self.job(id))["attempts"][-1:][0]["worker"] == "receiver"

        await eventually(lambda: len(self.addresses) > seen, "the callback")
        await eventually(held, "the receiver holds it")
        address = self.addresses[-1]
        assert address is not None
        assert address.startswith(f"{BASE}/api/reports/{id}?seal=")
        return id, address.removeprefix(BASE)

    async def report(self, path: str, body: object) -> Response:
        return await self.client.post(path, body)


@contextlib.asynccontextmanager
async def receiving(base: str | None = BASE) -> AsyncIterator[Receiver]:
    addresses: list[str | None] = []

    async def take_on(request: web.Request) -> web.Response:
        addresses.append(request.headers.get("Onbeat-Report-Url"))
        return web.Response(status=202, headers={"Onbeat-Async": "true"})

    app = web.Application()
    app.router.add_post("/", take_on)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    options = Options(http=HttpOptions(private_allowed=True), public_url=base)
    beat = Onbeat("memory://", options=options)
    try:
        async with beat:
            client = RestClient(build_api(beat.backend.context, ApiOptions(keys=(KEY,))))
            yield Receiver(client, url, addresses)
    finally:
        await runner.cleanup()


async def test_a_report_needs_no_key_and_is_answered_twice_alike() -> None:
    async with receiving() as receiver:
        id, path = await receiver.taken_on()
        assert (await receiver.client.get(f"/api/jobs/{id}")).status == 401
        going = {"outcome": "running", "progress": {"done": 1, "total": 2}}
        answer = await receiver.report(path, going)
        assert (answer.status, answer.json["settled"]) == (200, False)
        assert (await receiver.job(id))["progress"] == {"done": 1.0, "total": 2.0}
        first = await receiver.report(path, DONE)
        again = await receiver.report(path, DONE)
        assert (first.status, first.json["state"]) == (200, "succeeded")
        assert (again.status, again.json) == (200, first.json)
        other = await receiver.report(path, {"outcome": "failed"})
        assert (other.status, other.error["code"]) == (409, "lease_lost")
        job = await receiver.job(id)
        assert (job["state"], job["result"], len(job["attempts"])) == ("succeeded", {"rows": 3}, 1)


async def test_a_failed_report_is_tried_again_and_its_address_is_stale() -> None:
    async with receiving() as receiver:
        retry = {"attempts_max": 2, "delay": 0, "jitter": False}
        id, first = await receiver.taken_on(retry=retry)
        failed = {"outcome": "failed", "error": "no disk"}
        assert (await receiver.report(first, failed)).json["state"] == "waiting"
        await eventually(lambda: len(receiver.addresses) == 2, "the second attempt")
        assert (await receiver.report(first, DONE)).status == 409
        assert (await receiver.report(first, failed)).status == 200
        second = receiver.addresses[1]
        assert second is not None
        assert (await receiver.report(second.removeprefix(BASE), DONE)).status == 200
        outcomes = [one["outcome"] for one in (await receiver.job(id))["attempts"]]
        assert outcomes == ["failed", "succeeded"]


async def test_every_refusal_says_why() -> None:
    async with receiving() as receiver:
        id, path = await receiver.taken_on()
        bare = f"/api/reports/{id}"
        seal = path.partition("?seal=")[2]
        refused = {
            (bare, 422): "seal must be in the query once, as Onbeat-Report-Url has it",
            (f"{path}&seal={seal}", 422): "seal must be in the query once",
            (f"{bare}?seal={'x' * 101}", 422): "seal must be in the query once",
            (f"{path}&x=1", 422): "x is not a known parameter",
            (f"{path}A", 403): "was not given out for job",
            (f"/api/reports/7?seal={seal}", 400): "id",
        }
        for (place, status), says in refused.items():
            answer = await receiver.report(place, DONE)
            assert (answer.status, says in answer.error["message"]) == (status, True), answer.json
        for body, status, says in (
            (b"", 400, "The report needs a JSON body"),
            (b"{", 400, "not JSON"),
            (b'{"outcome": 3}', 400, "outcome"),
            (b'{"outcome": "done"}', 422, "succeeded, failed, running"),
            (b'{"outcome": "running", "result": 1}', 422, "result does not go with"),
        ):
            answer = await receiver.client.post(path, body, content_type="application/json")
            assert (answer.status, says in answer.error["message"]) == (status, True), answer.json
        assert (await receiver.client.get(path)).status == 405
        assert (await receiver.job(id))["state"] == "running"


async def test_a_body_is_bounded() -> None:
    async with receiving() as receiver:
        _, path = await receiver.taken_on()
        body = b'{"outcome": "succeeded"' + b" " * (REPORT_BYTES_MAX - 24) + b"}"
        long = await receiver.client.post(path, body + b" ", content_type="application/json")
        assert (long.status, long.error["code"]) == (413, "too_large")
        assert (
            await receiver.client.post(path, body, content_type="application/json")
        ).status == 200


async def test_forged_seals_count_as_wrong_keys_do() -> None:
    async with receiving() as receiver:
        id, path = await receiver.taken_on()
        statuses = [
            (await receiver.report(f"{path}A", DONE)).status for _ in range(REFUSED_MAX + 1)
        ]
        assert statuses == [403] * REFUSED_MAX + [429]
        assert (await receiver.report(path, DONE)).status == 200
        assert (await receiver.job(id))["state"] == "succeeded"


async def test_without_an_address_of_the_service_the_job_fails_and_names_the_setting() -> None:
    async with receiving(base=None) as receiver:
        id = await receiver.send()

        async def failed() -> bool:
            return (await receiver.job(id))["state"] == "failed"

        await eventually(failed, "the job has failed")
        assert receiver.addresses == [None]
        assert "set api.public_url" in (await receiver.job(id))["error"]


async def test_a_targets_policy_is_shown_and_its_faults_are_named() -> None:
    async with receiving() as receiver:
        policy = {"success": [200, "3xx"], "redirects": 2, "connect_timeout": "5s"}
        target = {"http": {"url": "https://api.example.com/", "method": "GET", **policy}}
        later = {"target": target, "delay": "1h"}
        made = await receiver.client.post("/api/jobs", later, x_api_key=KEY)
        assert made.status == 201
        assert (await receiver.job(made.json["id"]))["target"] == target
        for name, wrong, says in (
            ("success", "all", "target.http.success: 'all' is no status"),
            ("success", [], "target.http.success"),
            ("success", [700], "target.http.success: '700' is no status"),
            ("redirects", 21, "redirects"),
            ("connect_timeout", "10m", "target.http.connect_timeout must be from"),
        ):
            http = {**target["http"], name: wrong}
            body = {"target": {"http": http}}
            answer = await receiver.client.post("/api/jobs", body, x_api_key=KEY)
            assert answer.status in {400, 422}
            assert says in answer.error["message"]
            schedule = {"name": "x", "every": "1h", **body}
            answer = await receiver.client.post("/api/schedules", schedule, x_api_key=KEY)
            assert says in answer.error["message"]


async def test_an_edit_of_another_field_keeps_the_policy() -> None:
    async with receiving() as receiver:
        http = {"url": "https://api.example.com/", "success": "any", "redirects": 2}
        schedule = {"name": "x", "every": "1h", "target": {"http": http}}
        made = await receiver.client.post("/api/schedules", schedule, x_api_key=KEY)
        path = f"/api/schedules/{made.json['id']}"
        assert (await receiver.client.put(path, {"body": "b"}, x_api_key=KEY)).status == 200
        shown = (await receiver.client.get(path, x_api_key=KEY)).json
        kept = shown["target"]["http"]
        assert (kept["success"], kept["redirects"], kept["body"]) == ("any", 2, "b")
        assert (await receiver.client.put(path, shown, x_api_key=KEY)).status == 200
        assert (await receiver.client.get(path, x_api_key=KEY)).json["target"] == shown["target"]
