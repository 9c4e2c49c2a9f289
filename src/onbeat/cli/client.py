"""The client of a command: it calls a store directly, or a service."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click
import msgspec

from onbeat.model.errors import Malformed, NotFound
from onbeat.settings import Settings, load

if TYPE_CHECKING:
    from onbeat.app.backend import Backend

Value = TypeVar("Value")


ELSEWHERE: Final = {"flow": "`onbeat job show` names the flow of a job"}
"""Where ids are found that no command lists."""


def explain_bad_id(error: Malformed, id: object, operation: str) -> Malformed:
    """Add the invalid id and where to find ids to the error, because the text may be a name."""
    if id is None or "ID format" not in str(error):
        return error
    group = operation.partition(".")[0]
    place = ELSEWHERE.get(group, f"`onbeat {group} list` shows the ids")
    return Malformed(f"{error}: {id}; {place}")


class Client(Protocol):
    """Calls operations by name; returns plain JSON values, raises `OnbeatError`."""

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        """`named` are the fields of path and query, None where not given; `body` becomes JSON."""
        ...

    async def call_schedule(
        self,
        operation: str,
        which: str,
        named: Mapping[str, object],
        body: object | None = None,
    ) -> Any:
        """The same for one schedule, by its id or key."""
        ...

    async def wait_for_end(self, id: str) -> Any:
        """The job, once it has ended, in the form of `job.show`."""
        ...


class ConnectionOptions(msgspec.Struct, frozen=True):
    """The connection options of a command."""

    store: str | None = None
    server: str | None = None
    api_key: str | None = None
    config: Path | None = None

    def call(
        self,
        operation: str,
        named: Mapping[str, object] | None = None,
        body: object | None = None,
    ) -> Any:
        """Send one request and return its answer."""
        request = named or {}
        try:
            return self.run(lambda client: client.call(operation, request, body))
        except NotFound as error:
            raise NotFound(
                f"{error}: {request.get('id') or request.get('name', operation)}"
            ) from error
        except Malformed as error:
            raise explain_bad_id(error, request.get("id"), operation) from error

    def call_schedule(
        self,
        operation: str,
        which: str,
        named: Mapping[str, object] | None = None,
        body: object | None = None,
    ) -> Any:
        """The same for one schedule, by its id or key."""
        request = named or {}
        try:
            return self.run(lambda client: client.call_schedule(operation, which, request, body))
        except NotFound as error:
            raise NotFound(f"{error}; `onbeat schedule list` shows what there is") from error

    def run(self, work: Callable[[Client], Awaitable[Value]]) -> Value:
        """Send several requests over one connection."""
        # Loaded here: commands without a store or a service start sooner.
        from onbeat.cli.backend import BackendClient  # noqa: PLC0415

        async def run_connected() -> Value:
            async with self.connect() as backend:
                return await work(BackendClient(backend))

        return asyncio.run(run_connected())

    def connect(self) -> "AbstractAsyncContextManager[Backend]":
        """The service, or the open store, until the block ends."""
        from onbeat.cli.backend import open_backend  # noqa: PLC0415  as above

        return open_backend(self.server, self.api_key, self.settings)

    def settings(self) -> Settings:
        """The settings, as a client reads them."""
        # No API role: the checks of its address do not apply to a client.
        return load({"store": self.store, "roles": "maintenance"}, config=self.config)


def with_client(command: Callable[..., Value]) -> Callable[..., Value]:
    """Add the connection options to a command, and pass them as `ConnectionOptions`."""

    @click.option("--store", metavar="URL", help="Talk to this store.  [default: as configured]")
    @click.option(
        "--server",
        metavar="URL",
        envvar="ONBEAT_SERVER",
        help="Talk to the service there instead.  [env: ONBEAT_SERVER]",
    )
    @click.option(
        "--api-key",
        metavar="KEY",
        envvar="ONBEAT_API_KEY",
        help="The service's key; better in the environment.  [env: ONBEAT_API_KEY]",
    )
    @config_option
    @click.pass_context
    @functools.wraps(command)
    def wrapper(ctx: click.Context, /, **options: Any) -> Value:
        names = ("store", "server", "api_key", "config")
        fields = {name: options.pop(name) for name in names}
        typed = click.core.ParameterSource.COMMANDLINE
        if fields["store"] and fields["server"]:
            if ctx.get_parameter_source("server") is typed:
                raise click.UsageError("give --store or --server, not both", ctx)
            fields["server"] = None
        return command(connection=ConnectionOptions(**fields), **options)

    return wrapper


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the settings from this file.  [env: ONBEAT_CONFIG]",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
