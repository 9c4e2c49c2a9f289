"""The HTTP API: REST, JSON-RPC, OpenAPI and Swagger UI, generated from the table of operations."""

from typing import TYPE_CHECKING, Any

from onbeat.api.openapi import openapi_document, openapi_json, openapi_yaml
from onbeat.api.openrpc import openrpc_document, openrpc_json
from onbeat.api.options import ApiOptions

if TYPE_CHECKING:
    from onbeat.api.asgi import build_api


def __getattr__(name: str) -> Any:
    """Loads the application on demand: its documents are read without the extra `server`."""
    if name == "build_api":
        from onbeat.api.asgi import build_api  # noqa: PLC0415

        return build_api
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ApiOptions",
    "build_api",
    "openapi_document",
    "openapi_json",
    "openapi_yaml",
    "openrpc_document",
    "openrpc_json",
]
