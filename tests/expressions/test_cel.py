"""Expressions by the package cel-expr-python: values, faults, refusals, and bounded costs."""

import builtins
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from onbeat.expressions import cel
from onbeat.expressions.cel import CelExpressions
from onbeat.expressions.cost import extent_of
from onbeat.model.errors import Invalid
from onbeat.model.limits import (
    EXPRESSION_CHARS_MAX,
    EXPRESSION_COST_MAX,
    EXPRESSION_FACTS_BYTES_MAX,
    EXPRESSION_LOOPS_MAX,
    EXPRESSION_PATTERN_MAX,
)
from onbeat.ports.expressions import NO_EXPRESSIONS, Fault, ValueKind

NAMES = ("event", "now", "occurrence")
MONDAY = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)
EXPRESSIONS = CelExpressions()


def value(text, kind=ValueKind.ANY, **facts):
    return EXPRESSIONS.compile(text, NAMES, "condition.if", kind)(facts)


def refusal(text, kind=ValueKind.ANY):
    with pytest.raises(Invalid) as caught:
        EXPRESSIONS.compile(text, NAMES, "condition.if", kind)
    assert caught.value.field == "condition.if"
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("event.data.amount > 0", True),
        ("event.data.amount == 5.0", True),
        ("event.source + ':' + string(event.data.amount)", "/shop:5"),
        ("event.data.items.exists(item, item.sku == 'b')", True),
        ("has(event.data.nothing)", False),
        ("has(event.data.nothing) && event.data.nothing > 1", False),
        ("event.data.none == null", True),
        ("now.getDayOfWeek('Europe/Berlin')", 2),
        ("now.getDayOfWeek() in [1, 2, 3, 4, 5]", True),
        ("now - timestamp(event.time) < duration('10m')", True),
        ("now", MONDAY),
        ("now - now", timedelta()),
        ("event.source.matches('^/sh[a-z]{2}$')", True),
    ],
)
def test_value(text, expected):
    data = {"amount": 5, "items": [{"sku": "a"}, {"sku": "b"}], "none": None}
    event = {"source": "/shop", "data": data, "time": MONDAY - timedelta(minutes=5)}
    assert value(text, event=event, now=MONDAY) == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("event.missing > 0", 'Key not found in map : "missing"'),
        ("event.a > 'x'", "No matching overloads"),
        ("event.a / 0 > 1", "divide by zero"),
        ("event.big > 1", "Integer value '1180591620717411303424' out of range"),
        ("occurrence > now", 'No value with name "occurrence"'),
        ("now.getHours('Europe/Nowhere') > 1", "Invalid timezone"),
        ("b'ab'", "its value is of no use here: bytearray"),
        ("type(1)", "its value is of no use here"),
    ],
)
def test_fault(text, fault):
    facts = {"event": {"a": 1, "big": 2**70} if "big" in text else {"a": 1}, "now": MONDAY}
    found = value(text, **facts)
    assert isinstance(found, Fault)
    assert fault in found.text


def test_a_fault_does_not_show_the_facts():
    found = value("event.secret > 1", event={"secret": 2**70, "code": "hush"})
    assert "hush" not in found.text


def test_facts_that_are_not_json():
    assert value("event.a == 1", event={"a": object()}) == Fault("a fact is not JSON: object")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event.a >\n foo.b", "condition.if: line 2, column 5: undeclared reference to 'foo.b'"),
        ("event. > 1", "condition.if: line 1, column 8: Syntax error"),
        ("'a'.nothing()", "line 1, column 12: undeclared reference to 'nothing'"),
        ("(" * 40 + "1" + ")" * 40, "recursion limit exceeded"),
        ("1" + " + 1" * 40, "Exceeded max recursion depth"),
        ("event.a.matches(event.b)", "the pattern of matches() must be a text in quotes"),
        ("", "line 1, column 1: Syntax error"),
    ],
)
def test_refused_text(text, message):
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("text", "kind", "given"),
    [
        ("1 + 1", ValueKind.TRUTH, "must give true or false; it gives int"),
        ("now", ValueKind.TRUTH, "it gives timestamp"),
        (
            "[event.a]",
            ValueKind.TEXT,
            "must give a text, a number, or true or false; it gives list",
        ),
    ],
)
def test_a_text_that_cannot_give_the_kind(text, kind, given):
    assert given in refusal(text, kind)


def test_a_text_whose_kind_is_only_known_at_run():
    assert value("event.a", ValueKind.TRUTH, event={"a": 1}) == 1


def test_the_longest_text():
    longest = "'" + "x" * (EXPRESSION_CHARS_MAX - 2) + "'"
    assert value(longest) == longest[1:-1]
    with pytest.raises(Invalid, match="2048"):
        value(longest + " ")


def test_the_largest_facts():
    most = "x" * (EXPRESSION_FACTS_BYTES_MAX - len('{"event":""}'))
    assert value("event.size()", event=most) == len(most)
    assert "may have 65,536 bytes; they have 65,537" in value("event", event=most + "x").text


def test_the_deepest_loops():
    def nested(depth):
        return f"[1].all(a{depth}, {nested(depth - 1)})" if depth else "true"

    assert value(nested(EXPRESSION_LOOPS_MAX)) is True
    assert "more than 4 loops within one another" in refusal(nested(EXPRESSION_LOOPS_MAX + 1))


@pytest.mark.parametrize("pattern", ["a" * EXPRESSION_PATTERN_MAX, "a{80}"])
def test_the_largest_pattern(pattern):
    assert value(f"event.matches('{pattern}')", event="a" * 600) is True
    assert "the pattern of matches() may have 500" in refusal(f"event.matches('{pattern}{{9}}')")


HOSTILE = [
    "event.n.all(a, event.n.all(b, event.n.all(c, event.n.all(d, a + b + c + d >= 0))))",
    "event.n.map(a, event.n.map(b, event.n)) == event.n.map(a, event.n.map(b, event.n))",
    "event.n.filter(a, a in event.n).size() > 0",
    "event.n.exists(a, event.s.contains(string(a) + 'y'))",
    "event.n.map(a, event.s + event.s).size() > 0",
    "[event.s]" + ".map(a, a + a + a + a + a + a + a + a)" * 4 + "[0].size() > 0",
    "[[1]]" + ".map(a, [a, a, a, a, a, a, a, a, a, a])" * 4 + " == [event.n]",
    "[event.n]" + ".map(a, a + a)" * 4 + "[0].size() > 0",
    "[event.s]" + ".map(a, a.matches('(a+a+){20}b') ? a : a + a)" * 2 + "[0].size() > 0",
    "[" + ", ".join(["event.s + event.s"] * 90) + "].size() > 0",
    "[" + ", ".join(["event.s.matches('(a+)+(a+)+b')"] * 50) + "].size() > 0",
    "{'a': event.s + event.s}.exists(k, event.n.exists(n, k + string(n) == event.s))",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("size", [200, 4_000, 20_000])
def test_a_hostile_text_stops_within_its_budget(text, size):
    """Whether it is refused, stopped or done: a second is plenty for a slow machine."""
    facts = {"event": {"n": list(range(size // 4)), "s": "a" * size}}
    try:
        compiled = EXPRESSIONS.compile(text, NAMES, "on.if")
    except Invalid:
        return
    began = time.thread_time()
    compiled(facts)
    assert time.thread_time() - began < 1


def test_the_dearest_evaluation():
    """Two loops within one another over n elements cost about n squared."""
    compiled = EXPRESSIONS.compile("event.all(a, event.exists(b, a == b))", NAMES, "if")

    def outcome(count):
        return compiled({"event": ["a"] * count})

    assert outcome(100) is True
    fits, over = 100, 5_000
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if outcome(middle) is True else (fits, middle)
    assert EXPRESSION_COST_MAX / 40 < fits**2 < EXPRESSION_COST_MAX
    assert "it costs too much for facts of" in outcome(over).text


def test_extent_counts_bytes_and_elements():
    extent = extent_of(b'{"event":[1,2,[3]]}')
    assert (extent.size, extent.elements) == (19, 5)


def test_compiled_texts_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(cel, "COMPILED_MAX", 2)
    expressions = CelExpressions()
    first = expressions.compile("1", NAMES, "if")
    assert expressions.compile("1", NAMES[::-1], "if") is first
    for text in ("2", "3"):
        expressions.compile(text, NAMES, "if")
    assert len(expressions._compiled) == 2
    assert expressions.compile("1", NAMES, "if") is not first


def test_names_are_those_of_the_call():
    expressions = CelExpressions()
    expressions.compile("event", ("event",), "if")
    with pytest.raises(Invalid, match="undeclared reference to 'event'"):
        expressions.compile("event", ("job",), "if")


def test_many_threads_use_one():
    expressions = CelExpressions()
    wrong: list[object] = []

    def work(number):
        for place in range(50):
            text = f"event.a + {place % 7} == {number + place % 7}"
            if expressions.compile(text, NAMES, "if")({"event": {"a": number}}) is not True:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_extra(monkeypatch):
    load = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("cel_expr_python"):
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for expressions in (CelExpressions(), NO_EXPRESSIONS):
        with pytest.raises(Invalid, match=r"on\.if needs .*pip install 'onbeat\[cel\]'") as caught:
            expressions.compile("true", NAMES, "on.if")
        assert caught.value.field == "on.if"
