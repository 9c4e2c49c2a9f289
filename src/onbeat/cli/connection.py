"""Where the requests of a command go: the store itself, or a service."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec

from onbeat.model.errors import Malformed, Misconfigured, NotFound
from onbeat.settings import Settings, load

Value = TypeVar("Value")


def with_id(error: Malformed, id: object, operation: str) -> Malformed:
    """A word that is no id may be a name: say which it was, and where the ids stand."""
    if id is None or "ID format" not in str(error):
        return error
    group = operation.partition(".")[0]
    return Malformed(f"{error}: {id}; `onbeat {group} list` shows the ids")


class Caller(Protocol):
    """Asks for operations by name; answers with plain JSON values, raises `OnbeatError`."""

    async def call(
        self, operation: str, named: Mapping[str, object], body: object | None = None
    ) -> Any:
        """`named` are the fields of path and query, None where not given; `body` becomes JSON."""
        ...


class Connection(msgspec.Struct, frozen=True):
    """What the options of a command say about the other side."""

    store: str | None = None
    server: str | None = None
    api_key: str | None = None
    config: Path | None = None

    def ask(
        self,
        operation: str,
        named: Mapping[str, object] | None = None,
        body: object | None = None,
    ) -> Any:
        """One request and its answer."""
        asked = named or {}
        try:
            return self.run(lambda caller: caller.call(operation, asked, body))
        except NotFound as error:
            raise NotFound(f"{error}: {asked.get('id', operation)}") from error
        except Malformed as error:
            raise with_id(error, asked.get("id"), operation) from error

    def run(self, work: Callable[[Caller], Awaitable[Value]]) -> Value:
        """Several requests over one connection."""

        async def connected() -> Value:
            async with self.opened() as caller:
                return await work(caller)

        return asyncio.run(connected())

    def opened(self) -> AbstractAsyncContextManager[Caller]:
        # Imported here: each of the two brings what the other does not need.
        if self.server:
            from onbeat.cli.remote import remote_caller  # noqa: PLC0415

            return remote_caller(self.server, self.api_key)
        from onbeat.cli.local import local_caller  # noqa: PLC0415

        settings = self.settings()
        if settings.store.startswith("memory:"):
            raise Misconfigured(
                "store: memory:// lives inside the service's process; name it by --server URL",
                key="store",
            )
        return local_caller(settings)

    def settings(self) -> Settings:
        """The settings, as a client reads them."""
        # No role: what the service may listen on is not for a client to judge.
        return load({"store": self.store, "roles": "supervisor"}, config=self.config)


def connects(command: Callable[..., Value]) -> Callable[..., Value]:
    """Gives a command the options that say where to connect, and the `Connection` they make."""

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
    def wrapped(ctx: click.Context, /, **options: Any) -> Value:
        names = ("store", "server", "api_key", "config")
        said = {name: options.pop(name) for name in names}
        typed = click.core.ParameterSource.COMMANDLINE
        if said["store"] and said["server"]:
            if ctx.get_parameter_source("server") is typed:
                raise click.UsageError("give --store or --server, not both", ctx)
            said["server"] = None
        return command(connection=Connection(**said), **options)

    return wrapped


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the settings from this file.  [env: ONBEAT_CONFIG]",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
