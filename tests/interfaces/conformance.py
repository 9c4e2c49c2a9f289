"""Requests that Schemathesis makes of the OpenAPI document, answered by a service in this process."""

import asyncio
from collections.abc import Callable
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.transport import Response
from schemathesis.transport.requests import REQUESTS_TRANSPORT

from conditions import eventually
from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api, openapi_document
from onbeat.api.stream_hub import StreamHub
from operations.harness import OperationsHarness

load_all_checks()
CONFORMANCE = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    )
]
DOCUMENT = openapi_document()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SENT = ("method", "url", "headers", "params", "data", "json", "cookies", "files")


CaseTest = Callable[[Any], None]


def at_every_address(examples: int) -> Callable[[CaseTest], CaseTest]:
    """A test of so many requests to each address of the document.

    They are the same at every run, so that a failure is a change.
    """

    def decorated(test: CaseTest) -> CaseTest:
        decorate: Callable[[CaseTest], CaseTest] = SCHEMA.parametrize()
        return decorate(bounded(examples)(test))

    return decorated


def bounded(examples: int) -> Callable[[CaseTest], CaseTest]:
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


async def no_metrics(_accept: str) -> Any:
    return b"", "text/plain"


class Service:
    """A fresh one, with a schedule or a job in it. `keys` are those of its settings."""

    def __init__(self, keys: tuple[str, ...] = ()) -> None:
        self.office = OperationsHarness()
        self.hub = StreamHub(self.office.context)
        options = ApiOptions(keys=keys, metrics=no_metrics)
        self.rest = RestClient(build_api(self.office.context, options, hub=self.hub))

    async def answer(self, request: requests.PreparedRequest, **headers: str) -> Response:
        body: Any = request.body.encode() if isinstance(request.body, str) else request.body
        sent: dict[str, Any] = {"host": "testserver", **request.headers, **headers}
        # A stream has no end of its own.
        end = asyncio.create_task(end_stream(self.hub))
        answer = await self.rest.send_parts(request.method, request.url, [body or b""], sent)
        end.cancel()
        return Response(
            status_code=answer.status,
            headers={name: [value] for name, value in answer.headers.items()},
            content=answer.body,
            request=request,
            elapsed=0.01,
            verify=False,
        )


async def end_stream(hub: StreamHub) -> None:
    await eventually(lambda: hub.readers, "somebody reads the stream")
    await hub.close()


async def prepared(service: Service, case: Any, **headers: str) -> requests.PreparedRequest:
    """The request of a case, of which two of three name something that is there."""
    body = {"name": "n", "rrule": "FREQ=MINUTELY", "callback_url": "https://example.com/"}
    noun = "jobs" if case.path.startswith("/api/jobs") else "schedules"
    sent = {"task": "t"} if noun == "jobs" else body
    made = await service.rest.post(f"/api/{noun}", sent, **headers)
    if "id" in case.path_parameters and len(case.path_parameters["id"]) % 3:
        case.path_parameters["id"] = made.json["id"]
    if case.path == "/api/jobs/claim" and isinstance(case.body, dict):
        # The clock stands still, so a wait would have no end.
        case.body.pop("wait", None)
    kwargs = REQUESTS_TRANSPORT.serialize_case(case, base_url="http://testserver")
    return requests.Request(**{k: v for k, v in kwargs.items() if k in SENT}).prepare()


async def answer_to(case: Any) -> Response:
    """What a fresh service answers to the case."""
    service = Service()
    return await service.answer(await prepared(service, case))
