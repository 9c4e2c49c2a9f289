"""The HTTP face: REST, OpenAPI and Swagger UI, made from the table of operations."""

from onbeat.api.asgi import build_api
from onbeat.api.options import ApiOptions

__all__ = ["ApiOptions", "build_api"]
