"""The OpenRPC document, generated from the same table and records as the OpenAPI document."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from typing import Any, Final, cast

import msgspec

from onbeat.api.openapi import (
    REF,
    REQUIRED,
    Schema,
    parameters,
    problem_descriptions,
    reference,
    schemas,
)
from onbeat.operations.invoke import body_type
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from onbeat.wire.jsonrpc import APPLICATION_CODES, FIXED, INVALID_PARAMS
from onbeat.wire.values import ANY_OBJECT

DESCRIPTION: Final = """\
Onbeat over JSON-RPC 2.0. Params go by name, in one object that holds what REST has in path, query
and body; methods without a body take them by position too, in the order given here. Calls of a
batch are done one after the other and answered in that order.

Beside these methods there is `submit:<task>` for every task that some worker knows: its params are
the arguments of a new job, and the member `onbeat` beside them says when and how it runs, in the
words of `job.enqueue`. Its result is `{"id", "created"}`.

A call that creates something may have the member `key` beside its params, with a new UUID for a
new call and the same one when it is sent again: the call is then done once, and answered as the
first time.
"""

DISCOVERY: Final[Schema] = {
    "name": "rpc.discover",
    "summary": "This document",
    "paramStructure": "either",
    "params": [],
    "result": {"name": "document", "schema": ANY_OBJECT},
}


@cache
def openrpc_json() -> str:
    return json.dumps(openrpc_document(), indent=2)


@cache
def openrpc_document() -> Schema:
    """The document in version 1.3.2, as plain values; do not modify it."""
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "Onbeat",
            "version": version("onbeat"),
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "servers": [{"name": "service", "url": "/rpc"}],
        "methods": [*(method_object(operation) for operation in OPERATIONS), DISCOVERY],
        "components": {"schemas": schemas(), "errors": errors()},
    }


def method_object(operation: Operation[Any, Any]) -> Schema:
    return {
        "name": operation.name,
        "summary": operation.summary,
        "tags": [{"name": operation.noun}],
        "paramStructure": "either" if operation.body is None else "by-name",
        "params": list(params(operation)),
        "result": {"name": operation.answer.__name__, "schema": reference(operation.answer)},
        "errors": [{"$ref": f"#/components/errors/{name}"} for name in errors()],
    }


def params(operation: Operation[Any, Any]) -> Iterator[Schema]:
    """Fields of path and query, then those of the body, without fields that only answers have."""
    named: set[str] = set()
    for parameter in parameters(operation):
        named.add(parameter["name"])
        yield {
            key: parameter[key]
            for key in ("name", "required", "schema", "description")
            if key in parameter
        }
    if operation.body is None:
        return
    form = schema_of(body_type(operation))
    required = {*form.get("required", ()), *REQUIRED.get(operation.id, ())}
    for name, schema in cast("dict[str, Schema]", form["properties"]).items():
        if name not in named and not schema.get("readOnly"):
            yield {"name": name, "required": name in required, "schema": schema}


def schema_of(kind: type[Any]) -> Schema:
    _, components = msgspec.json.schema_components([kind], ref_template=REF)
    return cast("Schema", components[kind.__name__])


def errors() -> Schema:
    """The errors by name: those of JSON-RPC, then those of this service."""
    known = problem_descriptions()
    schema: Schema = {
        text.lower().replace(" ", "_"): {"code": code, "message": text}
        for code, text in FIXED.items()
    }
    schema["invalid_params"] = {
        "code": INVALID_PARAMS,
        "message": "The field at fault, and what would be right",
        "data": {"code": "validation_failed", "field": "priority"},
    }
    schema |= {
        name: {
            "code": code,
            "message": known.get(name, "too many requests"),
            "data": {"code": name},
        }
        for name, code in APPLICATION_CODES.items()
    }
    return schema
