"""The example of FastAPI, in process and with the real framework."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from fastapi import Depends, FastAPI
from fastapi.encoders import jsonable_encoder

from ext.examples import load_example
from interfaces.rest_client import RestClient
from onbeat import Misconfigured, Onbeat
from onbeat.ext.fastapi import Mounted, answer_errors, get_beat, lifespan
from onbeat.model.errors import Unavailable

KEY = "admin-key-of-the-example-01"
NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("STORE", f"sqlite:///{tmp_path / 'onbeat.db'}")
    return load_example("fastapi/shop.py")


@pytest.fixture
async def client(shop: Any) -> AsyncIterator[RestClient]:
    async with shop.app.router.lifespan_context(shop.app):
        yield RestClient(shop.app)


async def test_a_route_sends_a_job_that_the_application_runs(shop: Any, client: RestClient) -> None:
    answer = await client.post("/orders/7")
    assert answer.status == 202
    done = await shop.beat.backend.wait_for_end(answer.json["job"])
    assert done.state.value == "succeeded"


async def test_answers_are_return_values_with_and_without_annotation(client: RestClient) -> None:
    id = (await client.post("/orders/7")).json["job"]
    shown = await client.get(f"/jobs/{id}")
    assert (shown.status, shown.json["id"]) == (200, id)
    assert shown.json["target"] == {"task": "order.confirm", "args": [7], "kwargs": {}}
    assert [job["id"] for job in (await client.get("/jobs")).json] == [id]
    assert jsonable_encoder({"result": msgspec.Raw(b"[1]")}) == {"result": [1]}


async def test_errors_are_answered_in_the_form_of_the_api(client: RestClient) -> None:
    missing = await client.get(f"/jobs/{NOBODY}")
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    nonsense = await client.get("/jobs/nonsense")
    assert (nonsense.status, nonsense.error["code"]) == (400, "invalid_request")


async def test_an_outage_says_when_to_come_again() -> None:
    app = FastAPI()
    answer_errors(app)

    @app.get("/")
    async def fail() -> None:
        raise Unavailable("the store is away")

    answer = await RestClient(app).get("/")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_the_description_of_the_application_knows_the_answers(client: RestClient) -> None:
    paths = (await client.get("/openapi.json")).json["paths"]
    content = paths["/jobs/{id}"]["get"]["responses"]["200"]["content"]
    assert content["application/json"]["schema"]["type"] == "object"


async def test_the_api_is_mounted_behind_its_key(client: RestClient) -> None:
    id = (await client.post("/orders/7")).json["job"]
    assert (await client.get(f"/onbeat/api/jobs/{id}")).status == 401
    shown = await client.get(f"/onbeat/api/jobs/{id}", authorization=f"Bearer {KEY}")
    assert (shown.status, shown.json["id"]) == (200, id)
    assert (await client.get("/onbeat/healthz")).status == 200
    assert (await client.get("/onbeat/swagger-ui")).status == 200


async def test_a_name_that_is_not_utf8_is_refused_by_the_mounted_api(client: RestClient) -> None:
    answer = await client.get("/onbeat/api/queues/%ff", x_api_key=KEY)
    assert (answer.status, answer.error["field"]) == (400, "name")


async def test_every_link_of_the_mounted_dashboard_stays_below_its_path(client: RestClient) -> None:
    id = (await client.post("/orders/7")).json["job"]
    led = await client.get(f"/onbeat/jobs/{id}", accept="text/html")
    assert led.headers["location"].startswith("/onbeat/login")
    for path in ("/onbeat/", "/onbeat/jobs", f"/onbeat/jobs/{id}", "/onbeat/schedules"):
        page = await client.get(path, authorization=f"Bearer {KEY}")
        assert page.status == 200, page.body
        assert page.headers["content-length"] == str(len(page.body))
        links = re.findall(rb'\s(?:href|src|action)="(/[^"]*)"', page.body)
        assert links
        assert [link for link in links if not link.startswith(b"/onbeat/")] == []
    (script,) = re.findall(rb'src="([^"]*/main.js)"', page.body)
    assert (await client.get(script.decode())).status == 200


async def test_scripts_of_the_mounted_dashboard_call_the_mounted_api(client: RestClient) -> None:
    page = await client.get("/onbeat/", authorization=f"Bearer {KEY}")
    keys = re.search(rb'data-keys="([^"]*)"', page.body)[1]
    assert b"&quot;/onbeat/jobs&quot;" in keys
    (script,) = re.findall(rb'src="([^"]*/main.js)"', page.body)
    live = await client.get(script.decode().replace("main.js", "live.js"))
    assert b"`/onbeat/api/stream" in live.body


async def test_text_that_looks_like_a_link_is_shown_as_it_is(shop: Any, client: RestClient) -> None:
    text = ' href="/x" "/api'
    job = await shop.beat.asend(shop.confirm.call(7).with_options(labels={"note": text}))
    page = await client.get(f"/onbeat/jobs/{job.id}", authorization=f"Bearer {KEY}")
    assert b"href=&#34;/x" in page.body


def test_a_mount_without_a_key_must_be_meant() -> None:
    beat = Onbeat("memory://")
    with pytest.raises(Misconfigured, match="insecure=True"):
        Mounted(beat)
    assert Mounted(beat, insecure=True).options.keys == ()


async def test_a_mount_shows_the_store_of_a_trial(shop: Any) -> None:
    client = RestClient(shop.app, authorization=f"Bearer {KEY}")
    async with shop.beat.testing(at="2026-11-23T09:00Z") as trial:
        id = (await client.post("/orders/7")).json["job"]
        await trial.adrain()
        assert (await client.get(f"/onbeat/api/jobs/{id}")).json["state"] == "succeeded"
    assert (await client.get(f"/onbeat/api/jobs/{id}")).status == 404
    await shop.beat.aclose()


async def test_an_application_that_only_sends_runs_no_jobs(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path / 'onbeat.db'}")
    app = FastAPI(lifespan=lifespan(beat, runs_jobs=False))

    @app.get("/")
    async def show(found: Annotated[Onbeat, Depends(get_beat)]) -> bool:
        return found is beat and not beat.backend.is_running

    async with app.router.lifespan_context(app):
        assert (await RestClient(app).get("/")).json is True


async def test_without_the_lifespan_the_dependency_says_what_to_do() -> None:
    app = FastAPI()

    @app.get("/")
    async def show(found: Annotated[Onbeat, Depends(get_beat)]) -> None: ...

    with pytest.raises(RuntimeError, match=r"FastAPI\(lifespan=lifespan\(beat\)\)"):
        await RestClient(app).get("/")
