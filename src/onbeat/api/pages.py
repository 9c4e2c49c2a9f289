"""The OpenAPI document in its forms, and Swagger UI from its package."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from onbeat.api.openapi import openapi_json, openapi_yaml

ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui-standalone-preset.js": "text/javascript",
    "favicon-16x16.png": "image/png",
    "favicon-32x32.png": "image/png",
}
"""The files of the package that are served; no others can be reached."""

# Swagger UI sets styles on its elements; everything else comes from this service.
SWAGGER_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'none'"
)
A_DAY: Final = "public, max-age=86400"

SWAGGER_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Onbeat API</title>
<link rel="stylesheet" href="/swagger-ui/swagger-ui.css">
<link rel="icon" href="/swagger-ui/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/swagger-ui/swagger-ui-bundle.js"></script>
<script src="/swagger-ui/swagger-ui-standalone-preset.js"></script>
<script src="/swagger-ui/start.js"></script>
</body>
</html>
"""

# The packaged Swagger UI reads only OpenAPI 3.0, so it loads the document in that form.
SWAGGER_START: Final = """window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "/docs/openapi.yml?openapi=3.0",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    layout: "StandaloneLayout"
  });
};
"""


def page_routes() -> Iterator[Route]:
    yield Route("/docs/openapi.yml", openapi_as_yaml)
    yield Route("/docs/openapi.json", openapi_as_json)
    yield Route("/swagger-ui", swagger_page)
    yield Route("/swagger-ui/", swagger_redirect)
    yield Route("/swagger-ui/{name}", swagger_asset)


async def openapi_as_yaml(request: Request) -> Response:
    return Response(openapi_yaml(version_of(request)), media_type="application/yaml")


async def openapi_as_json(request: Request) -> Response:
    return Response(openapi_json(version_of(request)), media_type="application/json")


def version_of(request: Request) -> str:
    return "3.0" if request.query_params.get("openapi") == "3.0" else "3.1"


async def swagger_redirect(_request: Request) -> Response:
    return RedirectResponse("/swagger-ui")


async def swagger_page(_request: Request) -> Response:
    headers = {"Content-Security-Policy": SWAGGER_POLICY}
    return Response(SWAGGER_PAGE, media_type="text/html", headers=headers)


async def swagger_asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "start.js":
        return Response(SWAGGER_START, media_type="text/javascript")
    if name not in ASSETS:
        raise HTTPException(404)
    return Response(asset(name), media_type=ASSETS[name], headers={"Cache-Control": A_DAY})


@cache
def asset(name: str) -> bytes:
    (version,) = files("swagger_ui_bundle").joinpath("vendor").iterdir()
    return version.joinpath(name).read_bytes()
