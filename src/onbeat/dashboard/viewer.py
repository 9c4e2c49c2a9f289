"""Who looks at a page, from where, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import msgspec
from starlette.requests import Request

from onbeat.api.request_context import context_for
from onbeat.api.requests import unknown_parameter
from onbeat.model.principal import Principal
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call, call_once, query_names, request_from
from onbeat.operations.tables.operation import Operation
from onbeat.recurrence.zones import doubt_of
from onbeat.rules.access import check_scope

Answer = TypeVar("Answer")

ZONE_COOKIE: Final = "onbeat-zone"
THEME_COOKIE: Final = "onbeat-theme"
THEMES: Final = ("auto", "light", "dark")
PART: Final = "part"
ZONE_CHARS_MAX: Final = 64


@dataclass(frozen=True)
class Viewer:
    """One request for a page: its caller's rights, zone and theme; `now` is one instant for all."""

    context: OperationContext
    request: Request
    zone: ZoneInfo
    theme: str
    now: datetime

    @property
    def principal(self) -> Principal:
        return self.context.principal

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters that are not empty: a form sends its empty fields too."""
        given = self.request.query_params.items()
        return {name: text for name, text in given if text and name != PART}

    @property
    def part(self) -> str | None:
        """The section of the page that is asked for alone."""
        return self.request.query_params.get(PART)

    async def ask(self, operation: Operation[Any, Answer], /, **named: object) -> Answer:
        """The operation's answer. Raises an `OnbeatError`, as where the scope is missing."""
        given = {name: str(value) for name, value in named.items() if value is not None}
        return await call(self.context, operation, request_from(operation, given, None))

    async def tell(
        self,
        operation: Operation[Any, Answer],
        body: object,
        /,
        once: str | None = None,
        **named: str,
    ) -> Answer:
        """The answer to a request with a body. `once` is the idempotency key of a form.

        Raises an `OnbeatError`.
        """
        request = request_from(operation, named, msgspec.json.encode(body))
        answer, _ = await call_once(self.context, operation, request, once)
        return answer

    def check_may(self, operation: Operation[Any, Any]) -> None:
        """Raises `Forbidden` where the viewer's key may not call it."""
        check_scope(self.principal, operation.scope)

    async def ask_as_here(self, operation: Operation[Any, Answer], /, **named: object) -> Answer:
        """The same with the parameters of the page, which go before `named`."""
        self.check_parameters(*query_names(operation))
        return await self.ask(operation, **{**named, **self.query})

    def check_parameters(self, *known: str) -> None:
        """Raises `Invalid` for an unknown one: a misspelt filter would list everything."""
        for name in self.query:
            if name not in known:
                raise unknown_parameter(name, known)

    @property
    def filters(self) -> Mapping[str, str]:
        """The parameters that choose what is shown; the others turn its pages."""
        paging = {"cursor", "limit", "page"}
        return {name: text for name, text in self.query.items() if name not in paging}

    def with_context(self, context: OperationContext) -> "Viewer":
        """The same viewer, whose questions are asked in this context."""
        return replace(self, context=context)

    def may(self, operation: Operation[Any, Any]) -> bool:
        return operation.scope in self.principal.scopes


def viewer_of(context: OperationContext, request: Request) -> Viewer:
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return Viewer(
        context_for(context, request),
        request,
        zone_of(unquote(request.cookies.get(ZONE_COOKIE, ""))),
        theme if theme in THEMES else "auto",
        context.clock.now(),
    )


def zone_of(name: str) -> ZoneInfo:
    """A zone by its name, else UTC."""
    if doubt_of(name):
        return ZoneInfo("UTC")
    try:
        return ZoneInfo(name[:ZONE_CHARS_MAX] or "UTC")
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")
