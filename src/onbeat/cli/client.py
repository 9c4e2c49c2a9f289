"""The client of a command: it calls a store directly, or a service."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec

from onbeat.model.errors import Malformed, NotFound
from onbeat.settings import Settings, load

Value = TypeVar("Value")


def explain_bad_id(error: Malformed, id: object, operation: str) -> Malformed:
    """Add the invalid id and where to find ids to the error, because the text may be a name."""
    if id is None or "ID format" not in str(error):
        return error
    group = operation.partition(".")[0]
    return Malformed(f"{error}: {id}; `onbeat {group} list` shows the ids")


class Client(Protocol):
    """Calls operations by name; returns plain JSON values, raises `OnbeatError`."""

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        """`named` are the fields of path and query, None where not given; `body` becomes JSON."""
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

    def run(self, work: Callable[[Client], Awaitable[Value]]) -> Value:
        """Send several requests over one connection."""
        # Loaded here: commands without a store or a service start sooner.
        from onbeat.cli.backend import BackendClient, open_backend  # noqa: PLC0415

        async def run_connected() -> Value:
            async with open_backend(self.server, self.api_key, self.settings) as backend:
                return await work(BackendClient(backend))

        return asyncio.run(run_connected())

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
