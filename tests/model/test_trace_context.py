"""The form of a trace context that comes from outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.limits import (
    TRACEPARENT_CHARS_MAX,
    TRACESTATE_CHARS_MAX,
    TRACESTATE_MEMBERS_MAX,
)
from onbeat.model.trace_context import (
    TRACEPARENT_CHARS,
    TraceContext,
    ids_of,
    is_sampled,
    read_trace,
    read_traceparent,
    read_tracestate,
    traceparent,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"
LATER = "cc-" + VALID[3:]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (VALID, VALID),
        (f" {VALID}\t", VALID),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-ff", VALID),
        (f"00-{TRACE}-{SPAN}-02", f"00-{TRACE}-{SPAN}-00"),
        (LATER, VALID),
        (f"{LATER}-what-follows", VALID),
        (f"{LATER}-{'x' * (TRACEPARENT_CHARS_MAX - TRACEPARENT_CHARS - 1)}", VALID),
    ],
)
def test_what_a_sender_says_is_kept_in_one_form(text: str, read: str) -> None:
    assert read_traceparent(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        f"{VALID}-",
        f"{VALID}-more",
        f"ff-{VALID[3:]}",
        f"{LATER}more",
        VALID.upper(),
        VALID.replace("-", "_"),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{TRACE}-{SPAN}-1",
        f"{VALID}\n",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
        f"{LATER}-{'x' * (TRACEPARENT_CHARS_MAX - TRACEPARENT_CHARS)}",
    ],
)
def test_anything_else_is_ignored(text: str) -> None:
    assert read_traceparent(text) is None


@given(
    st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True)
)
def test_what_is_read_can_be_read_again(text: str) -> None:
    read = read_traceparent(text)
    if read is not None:
        assert len(read) == TRACEPARENT_CHARS
        assert read_traceparent(read) == read
        trace, span = ids_of(read)
        assert traceparent(trace, span, sampled=is_sampled(read)) == read


LONGEST = f"a={'x' * 256},b={'x' * (TRACESTATE_CHARS_MAX - 261)}"
MOST = ",".join(f"k{number}=1" for number in range(TRACESTATE_MEMBERS_MAX))


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["vendor=1"], "vendor=1"),
        (["one=1", "two@shop=a b:2;3"], "one=1,two@shop=a b:2;3"),
        ([" one=1 ,\t,two=2,"], "one=1,two=2"),
        ([LONGEST], LONGEST),
        ([MOST], MOST),
        ([], None),
        ([""], None),
        ([LONGEST + ","], None),
        ([f"{MOST},more=1"], None),
        (["no"], None),
        (["Upper=1"], None),
        (["one=1,two"], None),
        (["one=a=b"], None),
        (["one=1\r\nHost: x"], None),
        (["one=\u0661"], None),
        (["one="], None),
        ([f"a={'x' * 257}"], None),
    ],
)
def test_what_others_put_beside_it_is_passed_on_or_dropped(
    texts: list[str], read: str | None
) -> None:
    assert read_tracestate(texts) == read
    assert read is None or read_tracestate([read]) == read


def test_a_trace_goes_on_without_a_state_that_is_dropped() -> None:
    assert read_trace([VALID], ["no"]) == TraceContext(VALID)
    assert read_trace([VALID], ["one=1"]) == TraceContext(VALID, "one=1")
    assert read_trace([VALID, VALID], ["one=1"]) is None
    assert read_trace([], ["one=1"]) is None


def test_a_context_goes_on_in_headers() -> None:
    assert TraceContext(VALID).headers() == {"traceparent": VALID}
    both = TraceContext(VALID, "one=1").headers()
    assert both == {"traceparent": VALID, "tracestate": "one=1"}
