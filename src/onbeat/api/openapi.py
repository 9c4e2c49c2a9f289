"""The OpenAPI document, generated from the table of operations and the wire records."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from inspect import cleandoc
from typing import Any, Final, cast

import msgspec
import yaml

from onbeat.api.event_document import CONTENT, header_parameters
from onbeat.model.limits import IDEMPOTENCY_KEY_CHARS_MAX
from onbeat.operations.invoke import body_type, query_names
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import CREATED, Operation
from onbeat.rules.idempotency import HEADER
from onbeat.rules.reports import ROUTE
from onbeat.wire.errors import ProblemAnswer
from onbeat.wire.reports import ReportAnswer, ReportBody, SealedReport
from onbeat.wire.stream import StreamRequest
from onbeat.wire.values import ANY_ARRAY, ANY_OBJECT

Schema = dict[str, Any]

REF: Final = "#/components/schemas/{name}"
RESPONSE_REF: Final = "#/components/responses/Problem{status}"
PROBLEM: Final = {"$ref": "#/components/schemas/ProblemAnswer"}

DESCRIPTION: Final = """\
Onbeat is a durable scheduler and job queue: schedules fire HTTP callbacks and functions, jobs are
run at least once, and every attempt is kept.

Ids are strings. Instants are RFC 3339 and come out in UTC. Every error is
`{"error": {"code", "message"}}`, with `field` where one field is at fault and `detail` where there
is more to say. When the service has keys, send `Authorization: Bearer KEY` or `X-API-Key: KEY`.
"""

ERRORS: Final = {
    400: "`invalid_request`: broken JSON, a wrong type or a bad id",
    401: "`unauthorized`: no key was given, or it is not known",
    403: "`forbidden`: not allowed, such as a request from a page of another site",
    404: "`not_found`: nothing has this id",
    409: "`conflict`: it exists already, its state forbids this, or a request with the same"
    " idempotency key is under way (then with Retry-After); `lease_lost`: somebody else has"
    " the job",
    413: "`too_large`: over a named limit",
    422: "`validation_failed`: well-formed, and impossible",
    500: "`internal_error`: an unexpected error; the service's log has the details",
    503: "`unavailable`: the store does not answer just now; nothing was lost",
}

REQUIRED: Final = {"createSchedule": ["name"]}
"""Fields that the body of one operation requires, beyond a form that several share."""

EXAMPLES: Final[Schema] = {
    "createSchedule": {
        "name": "Daily Backup",
        "rrule": "FREQ=DAILY;INTERVAL=1",
        "callback_url": "https://example.com/backup",
        "method": "POST",
        "headers": {"Authorization": "Bearer abc123", "Content-Type": "application/json"},
        "body": '{"task":"backup"}',
    },
    "updateSchedule": {"rrule": "FREQ=DAILY;INTERVAL=2", "method": "PUT"},
    "putSchedule": {"every": "15m", "target": {"task": "mail.digest", "kwargs": {"team": 7}}},
    "backfillSchedule": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-08T00:00:00Z"},
    "previewRecurrence": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "timezone": "Europe/Berlin"},
    "enqueueJobs": {"task": "mail.welcome", "args": [7], "delay": "10m"},
    "makeBulk": {"do": "retry", "where": {"task": "billing.*", "since": "2026-01-31T09:00:00Z"}},
    "sendNotification": {"channel": "mail", "to": ["ada@example.com"], "text": "It is done."},
    "cancelJob": {"reason": "no longer needed"},
    "claimJobs": {"worker": "exporter-1", "tasks": ["export"], "limit": 10, "lease": "60s"},
    "startJob": {"token": "1.mSg2vUKBsWqY3xkT0cJ5fA"},
    "renewJob": {"token": "1.mSg2vUKBsWqY3xkT0cJ5fA", "lease": "60s"},
    "settleJob": {"token": "1.mSg2vUKBsWqY3xkT0cJ5fA", "attempt": 1, "result": {"rows": 23}},
}

NOUNS: Final = {
    "schedule": "What fires jobs over time, by a rule",
    "recurrence": "Rules by themselves: what they mean and when they fire",
    "timeline": "What ran and what will run, on one axis of time",
    "job": "Work to be done, its attempts and its history; also for workers in other languages",
    "bulk": "One action on all jobs that a filter matches, counted first and done in chunks",
    "event": "Facts from outside that schedules react to (CloudEvents 1.0)",
    "notification": "Notices to people, over the channels of the configuration",
    "flow": "Jobs that come after one another",
    "failure": "Failures that are alike, by fault",
    "dead": "Messages that could not be processed",
    "alert": "What is wrong now, and silences",
    "queue": "Named lists of jobs, which can be paused and limited",
    "worker": "Processes that run jobs",
    "stats": "Figures over everything",
    "pulse": "Rates, lateness and depths over time",
    "key": "API keys: what each may do",
    "session": "Sessions of the dashboard: who is logged in",
    "settings": "How the process that answers was set up",
    "secrets": "Encryption at rest",
    "audit": "Who changed what",
    "service": "The service itself: health, metrics, the live stream, descriptions, JSON-RPC",
}
"""Descriptions of the tags."""

# No content type for YAML: client generators do not know it.
OTHER_PATHS: Final = {
    "/healthz": ("getHealth", "Whether the process lives", "application/json"),
    "/readyz": ("getReadiness", "Whether the service can work; 503 if not", "application/json"),
    "/metrics": ("getMetrics", "Figures for Prometheus", "text/plain"),
    "/rpc/openrpc.json": ("getOpenrpc", "The methods of JSON-RPC", "application/json"),
    "/docs/openapi.yml": ("getOpenapiYaml", "This document as YAML", None),
    "/docs/openapi.json": ("getOpenapiJson", "This document as JSON", "application/json"),
    "/swagger-ui": ("getSwaggerUi", "This document to click through", "text/html"),
}

KEY_FORM: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": IDEMPOTENCY_KEY_CHARS_MAX,
    "pattern": "^[!-~]+$",
}
KEY_PARAMETER: Final[Schema] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": (
        "A new UUID for a new request, the same one when it is sent again: the request is then "
        "done once, and answered as the first time. With another body it is refused (422), while "
        "the first is under way too (409 with Retry-After). Kept for `prune.keys_after`."
    ),
    "schema": KEY_FORM,
}
RPC_VERSION: Final[Schema] = {"type": "string", "enum": ["2.0"]}
RPC_ID: Final[Schema] = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}
RPC_ERROR: Final[Schema] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "integer"},
        "message": {"type": "string"},
        "data": ANY_OBJECT,
    },
}
RPC_RESPONSE: Final[Schema] = {
    "type": "object",
    "required": ["jsonrpc", "id"],
    "properties": {
        "jsonrpc": RPC_VERSION,
        "result": {},
        "error": RPC_ERROR,
        "id": RPC_ID,
    },
}
RPC_CALL: Final[Schema] = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": RPC_VERSION,
        "method": {"type": "string"},
        "params": {"anyOf": [ANY_OBJECT, ANY_ARRAY]},
        "id": RPC_ID,
        "key": {**KEY_FORM, "description": f"As the header `{HEADER}`"},
    },
}


def one_or_many(form: Schema) -> Schema:
    return {
        "application/json": {
            "schema": {"anyOf": [form, {"type": "array", "items": form, "minItems": 1}]}
        }
    }


def rpc_problem(description: str) -> Schema:
    return {
        "description": description,
        "content": {"application/json": {"schema": RPC_RESPONSE}},
    }


@cache
def openapi_yaml(form: str = "3.1") -> str:
    """The document as YAML; form 3.0 is for tools without support for 3.1."""
    return yaml.safe_dump(document_in(form), sort_keys=False, allow_unicode=True, width=100)


@cache
def openapi_json(form: str = "3.1") -> str:
    return json.dumps(document_in(form), indent=2)


def document_in(form: str) -> Schema:
    document = openapi_document()
    if form != "3.0":
        return document
    return {**cast("Schema", as_version_3_0(document)), "openapi": "3.0.3"}


def openapi_document() -> Schema:
    """The document in version 3.1, as plain values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Onbeat",
            "version": version("onbeat"),
            "summary": "Durable job queue and scheduler for Python",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"key": []}, {}],
        "tags": [{"name": noun, "description": NOUNS[noun]} for noun in nouns()],
        "paths": paths(),
        "components": {
            "schemas": schemas(),
            "responses": {f"Problem{status}": problem_response(status) for status in ERRORS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def nouns() -> list[str]:
    """The tags, in the order of the table."""
    return [*dict.fromkeys(operation.noun for operation in OPERATIONS), "service"]


def rpc_path() -> Schema:
    """`/rpc`, whose methods have a separate document."""
    return {
        "operationId": "callMethods",
        "summary": "Call one method, or a batch of them, by JSON-RPC 2.0",
        "tags": ["service"],
        "requestBody": {
            "required": True,
            "content": one_or_many(RPC_CALL),
        },
        "responses": {
            "200": {"description": "The responses", "content": one_or_many(RPC_RESPONSE)},
            "204": {"description": "Notifications only: nothing is to be answered"},
            "400": rpc_problem("The body did not arrive, or is not JSON by its type"),
            "413": rpc_problem("The body is over its limit"),
            "503": {"description": "Notifications only, and the store was away: send them again"},
            **problems((401, 403, 500)),
        },
    }


def stream_path() -> Schema:
    """`/api/stream`, which answers for as long as its reader stays."""
    return {
        "operationId": "readStream",
        "summary": "What happens, as server-sent events; a hint: the API is the truth",
        "description": (
            "Kinds of events: `job`, `schedule` and `queue`, which come unless `events` names"
            " others, `pulse` and `changed`; `gap`, `reset` and `bye` come in any case. A header"
            " `Last-Event-ID` resumes, as `after` does."
        ),
        "tags": ["service"],
        "parameters": [*named_parameters(StreamRequest, StreamRequest.__struct_fields__)],
        "responses": {
            "200": {
                "description": "Events, without an end",
                "content": {"text/event-stream": {"schema": ANY_OBJECT}},
            },
            "429": {
                "description": "`rate_limited`: too many streams are open; with Retry-After",
                "content": {"application/json": {"schema": PROBLEM}},
            },
            **problems((400, 401, 403, 422, 500, 503)),
        },
    }


def report_path() -> Schema:
    """`/api/reports/{id}`, whose right is in its query."""
    return {
        "operationId": "reportAttempt",
        "summary": "Report an attempt whose callback was answered with `Onbeat-Async: true`",
        "description": "Its address, with the seal, is the header `Onbeat-Report-Url` of the call.",
        "tags": ["service"],
        "security": [],
        "parameters": [*named_parameters(SealedReport, ("seal",), "report")],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": reference(ReportBody),
                    "example": {"outcome": "succeeded", "result": {"rows": 23}},
                }
            },
        },
        "responses": {
            "200": {
                "description": "Done, now or by the same report before",
                "content": {"application/json": {"schema": reference(ReportAnswer)}},
            },
            "429": {
                "description": "`rate_limited`: too many forged seals; with Retry-After",
                "content": {"application/json": {"schema": PROBLEM}},
            },
            **problems((400, 403, 404, 409, 413, 422, 500, 503)),
        },
    }


def paths() -> Schema:
    schema: Schema = {}
    for operation in OPERATIONS:
        schema.setdefault(operation.path, {})[operation.method.lower()] = operation_object(
            operation
        )
    schema["/rpc"] = {"post": rpc_path()}
    schema["/api/stream"] = {"get": stream_path()}
    schema[ROUTE] = {"post": report_path()}
    for path, (id, summary, content_type) in OTHER_PATHS.items():
        schema[path] = {"get": service_operation_object(path, id, summary, content_type)}
    return schema


def operation_object(operation: Operation[Any, Any]) -> Schema:
    described: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.noun],
        "parameters": [*parameters(operation), *([KEY_PARAMETER] if operation.takes_key else [])],
        "responses": responses(operation),
    }
    if operation.reader is not None:
        described["parameters"] += header_parameters()
        described["requestBody"] = {"required": True, "content": CONTENT}
    elif operation.body is not None:
        described["requestBody"] = {
            "required": operation.body_required,
            "content": {"application/json": body_content(operation)},
        }
    return described


def body_content(operation: Operation[Any, Any]) -> Schema:
    form = reference(body_type(operation))
    required = REQUIRED.get(operation.id)
    content: Schema = {"schema": {"allOf": [form, {"required": required}]} if required else form}
    if operation.id in EXAMPLES:
        content["example"] = EXAMPLES[operation.id]
    return content


def parameters(operation: Operation[Any, Any]) -> Iterator[Schema]:
    return named_parameters(operation.request, query_names(operation), operation.body)


def named_parameters(
    request: type[Any], in_query: Sequence[str], body: str | None = None
) -> Iterator[Schema]:
    """The fields of a request as parameters, without the one that is the body."""
    schema = inline_schema(request)
    properties = cast("Schema", schema.get("properties", {}))
    for name, form in properties.items():
        if name == body:
            continue
        description = form.get("description")
        yield {
            "name": name,
            "in": "query" if name in in_query else "path",
            "required": name not in in_query,
            **({"description": description} if description else {}),
            "schema": without_null(form),
        }


def without_null(form: Schema) -> Schema:
    """The schema without null: a missing parameter is not null."""
    choices = [choice for choice in form.get("anyOf", ()) if choice != {"type": "null"}]
    kept = {key: value for key, value in form.items() if key not in {"anyOf", "default"}}
    shown = form.get("default")
    default = {} if shown is None else {"default": shown}
    return {**kept, **default, **(choices[0] if len(choices) == 1 else {})}


def responses(operation: Operation[Any, Any]) -> Schema:
    content = {"application/json": {"schema": reference(operation.answer)}}
    schema: Schema = {str(operation.status): {"description": "Done", "content": content}}
    if has_created(operation):
        schema["200"] = {"description": "It was there already", "content": content}
    return schema | problems(ERRORS)


def has_created(operation: Operation[Any, Any]) -> bool:
    fields = cast("type[msgspec.Struct]", operation.answer).__struct_fields__
    return operation.status == CREATED and "created" in fields


def problems(statuses: Iterable[int]) -> Schema:
    return {str(status): {"$ref": RESPONSE_REF.format(status=status)} for status in statuses}


def problem_descriptions() -> dict[str, str]:
    """The meaning of each code."""
    answer = (words for text in ERRORS.values() for words in text.split("; `"))
    parts = (words.lstrip("`").partition("`: ") for words in answer)
    return {code: meaning for code, _, meaning in parts}


def problem_response(status: int) -> Schema:
    return {
        "description": ERRORS[status],
        "content": {"application/json": {"schema": PROBLEM}},
    }


def service_operation_object(path: str, id: str, summary: str, content_type: str | None) -> Schema:
    described: Schema = {
        "operationId": id,
        "summary": summary,
        "tags": ["service"],
        "responses": {
            "200": {"description": "Done", **content_of(content_type)},
            **problems((403, 500)),
        },
    }
    if path == "/metrics":
        described["responses"] |= problems((401,))
    else:
        described["security"] = []
    if path == "/readyz":
        described["responses"] |= problems((503,))
    return described


def content_of(content_type: str | None) -> Schema:
    if content_type is None:
        return {}
    form = ANY_OBJECT if content_type == "application/json" else {"type": "string"}
    return {"content": {content_type: {"schema": form}}}


def reference(type: type[Any]) -> Schema:
    return {"$ref": REF.format(name=type.__name__)}


def schemas() -> Schema:
    """The form of every body and answer."""
    types = [operation.answer for operation in OPERATIONS]
    types += [body_type(operation) for operation in OPERATIONS if operation.body]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(types), ReportBody, ReportAnswer, ProblemAnswer], ref_template=REF
    )
    return {name: with_plain_text(components[name]) for name in sorted(components)}


def with_plain_text(schema: Schema) -> Schema:
    """The schema with its description, a docstring, unindented."""
    if "description" not in schema:
        return schema
    return {**schema, "description": cleandoc(schema["description"])}


def inline_schema(type: type[Any]) -> Schema:
    """The schema of a flat record, with its references inlined."""
    (own,), components = msgspec.json.schema_components([type], ref_template="{name}")
    return cast("Schema", resolve_references(components[own["$ref"]], components))


def resolve_references(value: object, components: dict[str, Schema]) -> object:
    match value:
        case {"$ref": str(name)}:
            return resolve_references(components[name], components)
        case dict():
            items = cast("dict[str, object]", value).items()
            return {key: resolve_references(item, components) for key, item in items}
        case list():
            return [resolve_references(item, components) for item in cast("list[object]", value)]
        case _:
            return value


def as_version_3_0(value: object) -> object:
    """The same in OpenAPI 3.0, which has `nullable` but no type null."""
    match value:
        case dict():
            form = {key: as_version_3_0(item) for key, item in cast("Schema", value).items()}
            return nullable(downgrade_schema(form))
        case list():
            return [as_version_3_0(item) for item in cast("list[object]", value)]
        case _:
            return value


def nullable(form: Schema) -> Schema:
    choices = cast("list[Schema]", form.get("anyOf", []))
    if {"type": "null"} not in choices:
        return form
    others = [choice for choice in choices if choice != {"type": "null"}]
    kept = {key: value for key, value in form.items() if key != "anyOf"}
    if len(others) == 1 and "$ref" not in others[0]:
        return {**kept, **others[0], "nullable": True}
    return {**kept, "anyOf": others, "nullable": True}


def downgrade_schema(form: Schema) -> Schema:
    """One example, no empty list of required fields, no summary and licence id in `info`."""
    examples = form.get("examples")
    kept = {key: value for key, value in form.items() if key not in {"examples", "identifier"}}
    if "title" in kept and "version" in kept:
        kept.pop("summary", None)
    if kept.get("required") == []:
        kept.pop("required")
    return {**kept, "example": examples[0]} if isinstance(examples, list) else kept
