"""Pages from templates: escaped everywhere, strict about names, with one policy for browsers."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from importlib.metadata import version as version_of_package
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from onbeat.api.security import HEADERS, session_token
from onbeat.dashboard.drawing.plot import Plot
from onbeat.dashboard.formats import (
    as_text,
    distance,
    duration,
    full_moment,
    in_zone,
    last_line,
    machine_moment,
    moment,
    number,
    rate,
    short_id,
    shown,
    size,
    typed,
)
from onbeat.dashboard.links import api_path, link
from onbeat.dashboard.parts import Parts
from onbeat.dashboard.viewer import THEMES, Viewer
from onbeat.operations.table import OPERATIONS
from onbeat.rules.sessions import proof_of

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types onbeat"
)
PAGE_HEADERS: Final = {
    **HEADERS,
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
}
ASSET_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER: Final = "public, max-age=31536000, immutable"
BY_NAME: Final = {one.name: one for one in OPERATIONS}

STATES: Final = {
    "succeeded": "ok",
    "running": "run",
    "waiting": "wait",
    "retry": "warn",
    "failed": "fail",
    "cancelled": "wait",
    "active": "ok",
    "paused": "wait",
    "finished": "wait",
    "alive": "ok",
    "silent": "warn",
}
"""The colour of each state; its mark has the same name as the state."""


@dataclass(frozen=True)
class PageAnswer:
    """What a page function answers: a template, the title of the page, and the template's values.

    `section` is the entry of the navigation that is marked.
    """

    template: str
    title: str
    section: str
    values: Mapping[str, Any]
    status: int = HTTPStatus.OK


@cache
def environment() -> Environment:
    result = Environment(
        loader=PackageLoader("onbeat.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.filters.update(number=number, rate=rate, duration=duration, shown=shown, short=short_id)
    result.filters.update(last_line=last_line, size=size)
    result.filters["json"] = json_text
    result.filters.update(typed=typed, as_text=as_text)
    # The stubs know only the names that are there by default.
    known = cast("dict[str, Any]", result.globals)
    known.update(link=link, api=api_path, asset=asset_path, states=STATES)
    return result


def figure(plot: Plot) -> str:
    """The text of a plot, the same on every page."""
    text: str = cast("Any", environment().get_template("plots.html").module).figure(plot)
    return text


def json_text(value: object) -> str:
    """For a `data-` attribute, which a script reads."""
    return msgspec.json.encode(value).decode()


def render(page: PageAnswer, viewer: Viewer) -> Response:
    """The page, or the one section of it that the viewer asks for. Raises `Invalid`."""
    text, parts = drawn(page, viewer, proof_of_viewer(viewer))
    if viewer.part is not None and page.status < HTTPStatus.BAD_REQUEST:
        return part_response(parts.of(viewer.part), viewer.request)
    return Response(text, page.status, media_type="text/html", headers=PAGE_HEADERS)


def section_of(page: PageAnswer, viewer: Viewer, proof: str | None) -> str:
    """The section that the viewer asks for, with this proof in its forms. Raises `Invalid`."""
    _, parts = drawn(page, viewer, proof)
    return parts.of(viewer.part or "")


def drawn(page: PageAnswer, viewer: Viewer, proof: str | None) -> tuple[str, Parts]:
    parts = Parts(page.title)
    values = {**page.values, **frame(page, viewer), "proof": proof, "part": parts}
    return environment().get_template(page.template).render(values), parts


def proof_of_viewer(viewer: Viewer) -> str | None:
    """What the forms of a session carry; None without a session."""
    token = session_token(viewer.request)
    return None if token is None else proof_of(token)


def part_response(text: str, request: Request) -> Response:
    """The section, or only the word that it is as it was."""
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {**PAGE_HEADERS, "ETag": etag}
    if etag in request.headers.get("if-none-match", "").replace(" ", "").split(","):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(text, media_type="text/html", headers=headers)


def frame(page: PageAnswer, viewer: Viewer) -> dict[str, Any]:
    """What every template may use beside its own values."""
    return {
        "title": page.title,
        "section": page.section,
        "viewer": viewer,
        "theme": viewer.theme,
        "next_theme": THEMES[(THEMES.index(viewer.theme) + 1) % len(THEMES)],
        "version": onbeat_version(),
        "at": partial(moment, zone=viewer.zone, now=viewer.now),
        "in_zone": partial(in_zone, zone=viewer.zone, now=viewer.now),
        "at_in_full": partial(full_moment, zone=viewer.zone),
        "machine": machine_moment,
        "from_now": partial(distance, now=viewer.now),
        "may": may_of(viewer),
    }


def may_of(viewer: Viewer) -> Callable[[str], bool]:
    """Whether the viewer's key may call the operation of this name: its button is drawn if so."""

    def may(name: str) -> bool:
        return viewer.may(BY_NAME[name])

    return may


@cache
def onbeat_version() -> str:
    return version_of_package("onbeat")


@cache
def assets() -> Mapping[str, bytes]:
    """The files of the dashboard by name."""
    folder = files("onbeat.dashboard").joinpath("assets")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@cache
def assets_digest() -> str:
    """Of all together, as one asset names another by a relative path."""
    content = b"".join(assets()[name] for name in sorted(assets()))
    return hashlib.sha256(content).hexdigest()[:16]


def asset_path(name: str) -> str:
    """An address that changes with the content, so that it can be kept for ever."""
    return link("assets", assets_digest(), name)


def asset_response(digest: str, name: str) -> Response | None:
    """None for a file or a version of it that is not there."""
    if name not in assets() or digest != assets_digest():
        return None
    kind = ASSET_TYPES["." + name.rpartition(".")[2]]
    headers = {**PAGE_HEADERS, "Cache-Control": FOR_EVER}
    return Response(assets()[name], media_type=kind, headers=headers)
