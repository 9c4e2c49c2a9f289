"""The dashboard in this process, over a memory store whose clock stands still."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from interfaces.rest_client import Response, RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.dashboard.routes import dashboard_routes, missing_page
from onbeat.ports.store import Store
from onbeat.rules.sessions import proof_of
from operations.harness import OperationsHarness

ADMIN = "admin-key-of-the-test-0001"
READ = "read-key-of-the-test-00003"
KEYS = (f"boss:admin={ADMIN}", f"look:read={READ}")
FORM = "application/x-www-form-urlencoded"
LOOPBACK = "127.0.0.1"


class DashboardOffice:
    """The service of one process; several may have one store."""

    def __init__(
        self,
        keys: tuple[str, ...] = KEYS,
        store: Store | None = None,
        harness: OperationsHarness | None = None,
    ) -> None:
        self.harness = harness or OperationsHarness(store)
        context, options = self.harness.context, ApiOptions(keys=keys)
        self.app = build_api(
            context,
            options,
            pages=lambda access: dashboard_routes(context, access),
            missing=missing_page(context),
        )

    def client(self, peer: str = LOOPBACK, scheme: str = "http", **headers: str) -> RestClient:
        """Requests from the address `peer`."""
        return RestClient(from_place(self.app, peer, scheme), **headers)

    async def log_in(
        self, key: str, to: str = "/", *, client: RestClient | None = None, **headers: str
    ) -> Response:
        return await posted(client or self.client(), {"key": key, "next": to}, **headers)

    async def session(self, key: str = ADMIN) -> RestClient:
        """A browser that has logged in."""
        token = token_of(await self.log_in(key))
        return self.client(cookie=f"onbeat={token}")


async def posted(client: RestClient, fields: dict[str, str], **headers: str) -> Response:
    sent = {"content_type": FORM, **headers}
    return await client.send("POST", "/login", urlencode(fields).encode(), **sent)


def from_place(app: Callable[..., Any], peer: str, scheme: str) -> Callable[..., Any]:
    async def placed(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await app({**scope, "scheme": scheme, "client": (peer, 1)}, receive, send)

    return placed


def token_of(answer: Response) -> str:
    assert answer.status == 303, answer.body
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2]


def proof(client: RestClient) -> str:
    return proof_of(client.headers["cookie"].partition("=")[2])
