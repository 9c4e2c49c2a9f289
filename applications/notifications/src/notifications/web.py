"""The page to unsubscribe. Looking at it changes nothing: mail programs follow links by themselves.

A POST to the same address unsubscribes, from the page or, as RFC 8058 wants it, with one click.
"""

from html import escape
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from notifications.app import Program
from notifications.links import PATH, BadLinkError, Wish, read_link
from notifications.people import RefusedError

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex"></head>
<body><h1>{title}</h1><p>{text}</p>{form}</body></html>
"""
FORM: Final = '<form method="post"><button type="submit">Unsubscribe</button></form>'


def build_web(program: Program) -> Starlette:
    async def confirm(request: Request) -> Response:
        wish = read_link(program.config.link_keys, request.query_params)
        return page("Unsubscribe?", f"No more notices about {what(wish)}.", FORM)

    async def unsubscribe(request: Request) -> Response:
        wish = read_link(program.config.link_keys, request.query_params)
        try:
            await program.prefer(wish, allowed=False)
        except RefusedError:  # the recipient or the topic is gone, and so are its notices
            return page("Nothing to do", f"There are no notices about {what(wish)} any more.")
        return page("Done", f"You will get no more notices about {what(wish)}.")

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(
        routes=[
            Route(PATH, confirm, methods=["GET"]),
            Route(PATH, unsubscribe, methods=["POST"]),
            Route("/healthz", alive),
        ],
        exception_handlers={BadLinkError: refuse},
    )


def what(wish: Wish) -> str:
    return f"{wish.topic} over {wish.channel}"


def page(title: str, text: str, form: str = "") -> Response:
    filled = PAGE.format(title=escape(title), text=escape(text), form=form)
    return HTMLResponse(filled, headers=HEADERS)


def refuse(_: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 403, headers=HEADERS)
