"""The trace context that goes with a job: `traceparent` and `tracestate` of W3C Trace Context."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from onbeat.model.limits import (
    TRACEPARENT_CHARS_MAX,
    TRACESTATE_CHARS_MAX,
    TRACESTATE_MEMBERS_MAX,
)

HEADER: Final = "traceparent"
STATE_HEADER: Final = "tracestate"
TRACEPARENT_CHARS: Final = 55
"""The length of version 00; a later version may be longer, and begins with the same parts."""
FORM: Final = re.compile(
    "(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    "(?P<rest>-.*)?",
    re.ASCII,
)
FORBIDDEN_VERSION: Final = "ff"
SAMPLED: Final = 1
MEMBER: Final = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]",
    re.ASCII,
)
"""A key, and a value without comma, equals sign and a blank at its end."""


class TraceContext(msgspec.Struct, frozen=True):
    """`parent` is a `traceparent` as it was read or made here, `state` the `tracestate` beside it.

    Only the systems that wrote its members can read a `tracestate`; it is passed on.
    """

    parent: str
    state: str | None = None

    def headers(self) -> dict[str, str]:
        """The headers of a request or message that is part of the trace."""
        if self.state is None:
            return {HEADER: self.parent}
        return {HEADER: self.parent, STATE_HEADER: self.state}


def trace_context(parent: str | None, state: str | None) -> TraceContext | None:
    """The context of a job, from its two fields."""
    return None if parent is None else TraceContext(parent, state)


def read_trace(parents: Sequence[str], states: Sequence[str]) -> TraceContext | None:
    """The context in the headers of each name; None without one `traceparent` that is well formed.

    A `tracestate` that is malformed or too long is dropped, as W3C allows; the trace goes on.
    """
    parent = read_traceparent(parents[0]) if len(parents) == 1 else None
    return None if parent is None else TraceContext(parent, read_tracestate(states))


def read_tracestate(texts: Sequence[str]) -> str | None:
    """The members of one or more headers in one form; None for none, or for what is to be dropped.

    The bound holds for the headers together, as they were sent.
    """
    text = ",".join(texts)
    if len(text) > TRACESTATE_CHARS_MAX:
        return None
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    if len(members) > TRACESTATE_MEMBERS_MAX or not all(map(MEMBER.fullmatch, members)):
        return None
    return ",".join(members) or None


def read_traceparent(text: str) -> str | None:
    """The context in the form of version 00; None for a text that is none, which is to be ignored.

    Of a later version only the parts that version 00 has are kept.
    """
    match = FORM.fullmatch(text.strip(" \t")) if len(text) <= TRACEPARENT_CHARS_MAX else None
    if match is None or match["version"] == FORBIDDEN_VERSION:
        return None
    if match["version"] == "00" and match["rest"] is not None:
        return None
    if not int(match["trace"], 16) or not int(match["span"], 16):
        return None
    return traceparent(match["trace"], match["span"], sampled=is_sampled(match["flags"]))


def traceparent(trace_id: str, span_id: str, *, sampled: bool) -> str:
    """The context of the span; ids in lower-case hexadecimal, of 32 and 16 digits."""
    return f"00-{trace_id}-{span_id}-{SAMPLED if sampled else 0:02x}"


def ids_of(traceparent: str) -> tuple[str, str]:
    """The ids of the trace and of the span."""
    _, trace, span, _ = traceparent.split("-")
    return trace, span


def is_sampled(traceparent: str) -> bool:
    """Whether the sender's span is exported, by the flags at the end of the text."""
    return bool(int(traceparent[-2:], 16) & SAMPLED)
