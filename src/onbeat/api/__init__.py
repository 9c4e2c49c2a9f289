"""The HTTP API: REST, JSON-RPC, OpenAPI and Swagger UI, generated from the table of operations."""

from onbeat.api.asgi import build_api
from onbeat.api.openapi import openapi_document, openapi_json, openapi_yaml
from onbeat.api.openrpc import openrpc_document, openrpc_json
from onbeat.api.options import ApiOptions

__all__ = [
    "ApiOptions",
    "build_api",
    "openapi_document",
    "openapi_json",
    "openapi_yaml",
    "openrpc_document",
    "openrpc_json",
]
