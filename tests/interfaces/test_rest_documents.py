"""The OpenAPI document says what there is, and Swagger UI shows it without the internet."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from openapi_spec_validator import validate

from interfaces.conformance import CONFORMANCE, DOCUMENT, answer_to, at_every_address, no_metrics
from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api, openapi_json, openapi_yaml
from onbeat.api.openapi import document_in
from onbeat.api.openrpc import openrpc_document
from onbeat.operations.table import OPERATIONS
from operations.harness import OperationsHarness

METHODS = {"get", "post", "put", "delete"}


@pytest.fixture
def app() -> Any:
    return build_api(OperationsHarness().context, ApiOptions(metrics=no_metrics))


@pytest.fixture
def rest(app: Any) -> Any:
    return RestClient(app)


@pytest.mark.parametrize("form", ["3.1", "3.0"])
def test_the_document_is_valid(form: str) -> None:
    document = document_in(form)
    assert document["openapi"].startswith(form)
    validate(document)


def test_yaml_and_json_say_the_same() -> None:
    assert yaml.safe_load(openapi_yaml()) == DOCUMENT
    assert yaml.safe_load(openapi_json()) == DOCUMENT


def test_every_operation_is_in_the_document() -> None:
    ids = {
        operation["operationId"]
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
    }
    assert {operation.id for operation in OPERATIONS} <= ids
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        assert described["operationId"] == operation.id
        assert str(operation.status) in described["responses"]
        assert ("requestBody" in described) is (operation.body is not None)


def test_the_known_operation_ids_stay() -> None:
    ids = {operation.id for operation in OPERATIONS}
    known = "createSchedule getSchedule updateSchedule deleteSchedule getPendingEvents getArchivedEvents"
    assert set(known.split()) <= ids


def test_every_route_is_in_the_document(app: Any) -> None:
    # The guard is a closure over the application whose routes are looked at.
    (starlette,) = [
        cell.cell_contents
        for name, function in (("guard", app),)
        for cell in function.__closure__
        if hasattr(cell.cell_contents, "routes")
    ]
    routes = {re.sub(r":path}", "}", route.path) for route in starlette.routes}
    former = {operation.former_path for operation in OPERATIONS} - {None}
    pages = {"/swagger-ui/", "/swagger-ui/{name}"}
    assert routes - pages - former == set(DOCUMENT["paths"])


# What generators of clients need, without running one (`make check` does)


def forms(value: Any, place: str = "") -> Iterator[Any]:
    """Every schema-like object in the document, with where it stands."""
    if isinstance(value, dict):
        yield place, value
        for key, item in value.items():
            if key not in {"example", "examples", "default"}:
                yield from forms(item, f"{place}/{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from forms(item, f"{place}/{number}")


DOCUMENTS = {
    "3.1": DOCUMENT,
    "3.0": document_in("3.0"),
    "openrpc": openrpc_document(),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_array_says_what_is_in_it(document: dict[str, Any]) -> None:
    arrays = [(place, form) for place, form in forms(document) if form.get("type") == "array"]
    assert len(arrays) > 20
    assert [place for place, form in arrays if not {"items", "prefixItems"} & form.keys()] == []


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_object_says_what_is_in_it(document: dict[str, Any]) -> None:
    objects = [(place, form) for place, form in forms(document) if form.get("type") == "object"]
    answer = {"properties", "additionalProperties"}
    assert len(objects) > 30
    assert [place for place, form in objects if not answer & form.keys()] == []


def test_every_operation_has_a_tag_with_a_description() -> None:
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    assert all(described.values())
    used = {
        tag
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
        for tag in operation["tags"]
    }
    assert used == described.keys()


def test_no_path_ends_in_a_slash() -> None:
    assert [path for path in DOCUMENT["paths"] if path.endswith("/") and path != "/"] == []


def is_ambiguous(one: Any, other: Any) -> Any:
    """Whether one request can be meant by both, and neither is the plainer one."""
    pairs = list(zip(one.split("/"), other.split("/"), strict=False))
    if one.count("/") != other.count("/"):
        return False
    overlap = all(a == b or "{" in a or "{" in b for a, b in pairs)
    return (
        overlap
        and any("{" in a and "{" not in b for a, b in pairs)
        and any("{" in b and "{" not in a for a, b in pairs)
    )


def test_no_two_paths_can_mean_the_same_request() -> None:
    assert is_ambiguous("/a/{id}/pause", "/a/by-key/{key}")
    paths = sorted(DOCUMENT["paths"])
    result = [(a, b) for a in paths for b in paths if is_ambiguous(a, b)]
    assert result == []


def test_path_parameters_are_described() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            named = {
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"
            }
            assert named == set(re.findall(r"{(\w+)}", path))


def test_secrets_are_in_no_answer() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert "secret" in schemas["HttpBody"]["properties"]
    assert set(schemas["HttpAnswer"]["properties"]) == {
        "url",
        "method",
        "headers",
        "body",
        "secret_set",
        "success",
        "redirects",
        "connect_timeout",
    }


async def test_the_document_is_served_in_both_forms(rest: RestClient) -> None:
    answer = await rest.get("/docs/openapi.yml?v=1.0")
    assert answer.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(answer.body) == DOCUMENT
    assert (await rest.get("/docs/openapi.json")).json == DOCUMENT
    older = yaml.safe_load((await rest.get("/docs/openapi.yml?openapi=3.0")).body)
    assert older == document_in("3.0")


async def test_swagger_ui_needs_nothing_from_elsewhere(rest: RestClient) -> None:
    redirect = await rest.get("/swagger-ui/")
    assert (redirect.status, redirect.headers["location"]) == (307, "/swagger-ui")
    page = await rest.get("/swagger-ui")
    assert page.headers["content-type"].startswith("text/html")
    assert b"<script>" not in page.body
    links = re.findall(r'(?:href|src)="([^"]+)"', page.body.decode())
    assert len(links) == 5
    for link in links:
        assert link.startswith("/swagger-ui/")
        assert (await rest.get(link)).status == 200
    start = (await rest.get("/swagger-ui/start.js")).body.decode()
    assert "/docs/openapi.yml" in start
    assert "http" not in start
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize(
    "name", ["index.html", "..%2f__init__.py", "swagger-ui.js.map", "%00", "x"]
)
async def test_nothing_else_of_the_package_is_served(rest: RestClient, name: str) -> None:
    assert (await rest.get(f"/swagger-ui/{name}")).status == 404


async def test_the_start_page_links_only_to_this_service(rest: RestClient) -> None:
    page = await rest.get("/")
    for link in re.findall(r'href="([^"]+)"', page.body.decode()):
        assert link.startswith("/")
        assert (await rest.get(link)).status == 200


# What the document says, against what the service does


@at_every_address(20)
def test_the_service_answers_as_the_document_says(case: Any) -> None:
    response = asyncio.run(answer_to(case))
    case.validate_response(response, checks=CONFORMANCE)
