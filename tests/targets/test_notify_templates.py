"""Templates: what they refuse at save, what they do, and what stops them."""

from typing import Any

import pytest

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import (
    RENDERED_BYTES_MAX,
    TEMPLATE_CHARS_MAX,
    TEMPLATE_DIGITS_MAX,
    TEMPLATE_LOOPS_MAX,
    TEMPLATE_WORK_MAX,
)
from onbeat.ports.notices import PLAIN_TEXTS
from onbeat.rules.notices import SCHEDULE_KNOWN, Instant
from onbeat.targets.notify.templates import LiquidTemplates

TEXTS = LiquidTemplates()
LONG = "a" * 100_000
FACTS: dict[str, Any] = {
    "data": {
        "name": "Ada <ada>",
        "items": [{"sku": "a", "price": 3}, {"sku": "b", "price": 4}],
        "many": list(range(1_000)),
        "long": LONG,
        "none": None,
    },
    "now": Instant.fromisoformat("2026-03-02T09:30:00+00:00"),
}


def rendered(text: str, **facts: object) -> str:
    return TEXTS.render(text, FACTS | facts, "text")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("no marks at all, { } %", "no marks at all, { } %"),
        ("Hi {{ data.name }}", "Hi Ada <ada>"),
        ("{{ now }} {{ now | date: '%d.%m.%Y' }}", "2026-03-02T09:30:00Z 02.03.2026"),
        ("{% for i in data.items %}{{ i.sku }}={{ i.price }};{% endfor %}", "a=3;b=4;"),
        ("{{ data.items | map: 'sku' | join: ', ' }}", "a, b"),
        ("{{ data.nick | default: 'you' }}", "you"),
        ("{{ event.data.nick | default: 'you' }}", "you"),
        ("{% if data.nick %}a{% else %}b{% endif %}", "b"),
        ("{% if event %}a{% else %}b{% endif %}", "b"),
        ("{% for job in data.items %}{{ job.sku }}{% endfor %}", "ab"),
        ("[{{ data.none }}]", "[]"),
        ("{% assign x = 3 %}{{ x | times: 4 }}", "12"),
        ("{% raw %}{{ data.name }}{% endraw %}", "{{ data.name }}"),
        ("{%- raw -%}{{ {%- endraw -%}", "{{ "),
        ("{{ data.name" + " " * 100 + "}}", "Ada <ada>"),
    ],
)
def test_a_text_is_filled_in(text: str, result: str) -> None:
    TEXTS.check(text, SCHEDULE_KNOWN, "text")
    assert rendered(text) == result


def test_values_in_html_are_escaped_and_the_template_is_not() -> None:
    text = "<b>{{ data.name }}</b>{{ data.items }}"
    html = TEXTS.render(text, FACTS, "html", is_html=True)
    assert html.startswith("<b>Ada &lt;ada&gt;</b>")
    assert "'" not in html.replace("<b>", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hi\n {{ datum.name }}", "text, line 2, column 5: there is no 'datum' here"),
        ("{% if customer > 3 %}{% endif %}", "there is no 'customer'"),
        ("{{ data[key] }}", "there is no 'key'"),
        ("{{ job.id }}\n{{ job.color }}", "text, line 2, column 4: job has no 'color'; it has"),
        ("{{ job['run at'] }}", "job has no 'run at'"),
        ("Hi {{ data.name", "line 1, column 4: expected '}}'"),
        ("{% if data %}", "line 1, column 14: expected tag endif"),
        ("Hi {% if data", "line 1, column 4: expected '%}'"),
        ("a {{ - }}", "line 1, column 3: there is nothing between the marks"),
        ("{{ data" + " " * 101 + "}}", "100 blanks"),
        ("{% raw %}{{", "'raw' has no end"),
        ("{% comment %}{% doc %}{% endcomment %}", "'doc' has no end"),
        ("{% fetch 'x' %}", "unexpected tag 'fetch'"),
        ("{% include 'x' %}", "unexpected tag 'include'"),
        ("{% render 'x' %}", "unexpected tag 'render'"),
        ("{{ data.name | shout }}", "line 1, column 16: there is no filter 'shout'"),
        ("{% for i in (1..3) %}{% endfor %}", "ranges such as"),
        ("{% assign x = (1..999999999) | join: ',' %}", "ranges such as"),
        ("{% tablerow i in (1..3) %}{% endtablerow %}", "ranges such as"),
        ("{{ " + "data[" * 3_000 + "0" + "]" * 3_000 + " }}", "nested too deep"),
        ("{% if data %}" * 40 + "{% endif %}" * 40, "nesting limit"),
    ],
)
def test_a_template_that_cannot_work_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        TEXTS.check(text, SCHEDULE_KNOWN, "text")
    assert words in str(caught.value)
    assert caught.value.field == "text"


def test_what_a_template_reads_is_told() -> None:
    assert set(
        TEXTS.check("{{ data.a }}{{ to }}{% assign x = now %}{{ x }}", SCHEDULE_KNOWN, "t")
    ) == {
        "data",
        "to",
        "now",
    }
    assert set(TEXTS.check("plain", SCHEDULE_KNOWN, "t")) == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ data.nmae }}", "text, line 1, column 4: data.nmae is undefined"),
        ("{{ event.data.x }}", "'event' is undefined"),
        ("{{ data.a.b.c | upcase }}", "data.a is undefined"),
        ("{% for i in data.absent %}{% endfor %}", "data.absent is undefined"),
        ("{{ data.name | divided_by: 0 }}", "divide"),
        ("{{ data.many | slice: 'x' }}", "slice"),
        ("{{ data.items | sort }}", "text"),
    ],
)
def test_a_text_that_cannot_be_filled_in_names_what_is_missing(text: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        rendered(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ data.long }}" * 3, f"more than {RENDERED_BYTES_MAX} bytes"),
        ("{% assign x = data.long %}" + "{% assign x = x | append: x %}" * 2, "variables take"),
        ("{% capture x %}" + "{{ data.long }}" * 3 + "{% endcapture %}", "bytes"),
        ("{{ data.long | replace: 'a', data.long }}", "more text than"),
        ("{{ data.long | replace: '', data.long }}", "more text than"),
        ("{{ data.long | split: '' | join: data.long }}", "more text than"),
        ("{{ data.long | upcase | size }}" * 30, "more text than"),
        ("{% assign x = 9999999 %}" + "{% assign x = x | times: x %}" * 9, "digits"),
        ("{% for a in data.many %}{% for b in data.many %}{% endfor %}{% endfor %}", "turns"),
        ("{% for a in data.many reversed %}" + " " * 6_000 + "{% endfor %}", "turns"),
        ("{{ now | date: '%999999999Y' }}", "no digits"),
        ("{{ data.long | date: '%Y' }}", "at most 64 characters"),
        ("{{ now | date: data.long }}", "at most 64 characters"),
    ],
)
def test_work_without_a_bound_is_stopped(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        rendered(text)


def test_the_bounds_of_a_template_are_where_they_say() -> None:
    mark = "{% comment %}{% endcomment %}"
    longest = mark + "x" * (TEMPLATE_CHARS_MAX - len(mark))
    assert len(rendered(longest)) == TEMPLATE_CHARS_MAX - len(mark)
    with pytest.raises(TooLarge):
        rendered(longest + "x")
    most = "x" * RENDERED_BYTES_MAX
    assert rendered("{{ data }}", data=most) == most
    with pytest.raises(Invalid):
        rendered("{{ data }}", data=most + "x")


def test_loops_may_take_so_many_turns() -> None:
    text = "{% for i in data %}.{% endfor %}"
    assert len(rendered(text, data=[1] * TEMPLATE_LOOPS_MAX)) == TEMPLATE_LOOPS_MAX
    with pytest.raises(Invalid):
        rendered(text, data=[1] * (TEMPLATE_LOOPS_MAX + 1))
    padded = text + " " * (5_000 - len(text))
    assert "." in rendered(padded, data=[1] * (TEMPLATE_WORK_MAX // 5_000))
    with pytest.raises(Invalid):
        rendered(padded, data=[1] * (TEMPLATE_WORK_MAX // 5_000 + 1))


def test_a_number_may_have_so_many_digits() -> None:
    assert rendered("{{ data | plus: 1 }}", data=10 ** (TEMPLATE_DIGITS_MAX - 12))
    with pytest.raises(Invalid):
        rendered("{{ data | plus: 1 }}", data=10 ** (TEMPLATE_DIGITS_MAX + 12))


def test_without_liquid_a_plain_text_passes_and_a_template_is_refused() -> None:
    assert PLAIN_TEXTS.render("plain", {}, "text") == "plain"
    with pytest.raises(Invalid):
        PLAIN_TEXTS.check("{{ data }}", SCHEDULE_KNOWN, "text")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onbeat.targets.notify.templates.find_spec", lambda _name: None)
    with pytest.raises(Invalid, match="onbeat\\[notify\\]"):
        TEXTS.check("{{ data }}", SCHEDULE_KNOWN, "text")
