"""Which modules may say that a text needs no escaping: those that build drawings and parts."""

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from onbeat.dashboard.drawing.svg import element, number, percent
from onbeat.dashboard.parts import Parts

DASHBOARD = Path(__file__).parents[2] / "src" / "onbeat" / "dashboard"
ALLOWED = {DASHBOARD / "drawing" / "svg.py", DASHBOARD / "parts.py"}
PAYLOAD = "\"><script>alert(1)</script>'&"


def test_only_two_modules_make_markup() -> None:
    makes = re.compile(r"\bMarkup\(|\bmarkupsafe\.|__html__|\.unescape\(")
    found = {path for path in DASHBOARD.rglob("*.py") if makes.search(path.read_text())}
    assert found == ALLOWED


def test_a_part_escapes_what_it_is_given() -> None:
    made = Parts(PAYLOAD)("list", PAYLOAD, lambda: Markup("<p>a</p>"))
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 2
    assert made.endswith("<p>a</p></section>")


@pytest.mark.parametrize("template", sorted(DASHBOARD.glob("templates/*.html")), ids=str)
def test_templates_escape_everything(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\|\s*safe\b|autoescape|Markup|\{%\s*raw", text)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)\s*=", text)


def test_texts_and_values_of_elements_are_escaped() -> None:
    drawn = element("a", PAYLOAD, element("title", PAYLOAD), href="/jobs", aria_label=PAYLOAD)
    assert "<script" not in drawn
    assert drawn.count("&lt;script&gt;") == 3
    assert drawn.startswith('<a href="/jobs" aria-label="&#34;&gt;')
    assert isinstance(drawn, Markup)


def test_braces_are_text() -> None:
    assert element("text", "{0} {}", class_="{x}") == '<text class="{x}">{0} {}</text>'


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("script", {}), ("rect", {"onload": "x"}), ("rect", {"style": "x"}), ("foreignObject", {})],
)
def test_no_other_element_or_attribute_is_drawn(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(AssertionError):
        element(name, **attributes)


@pytest.mark.parametrize("href", ["javascript:alert(1)", "//evil.example", "/\\evil.example", ""])
def test_links_lead_to_pages_of_the_dashboard(href: str) -> None:
    with pytest.raises(AssertionError):
        element("a", href=href)


def test_numbers_are_short() -> None:
    assert [number(value) for value in (1.0, 0.125, 33.333, 0.0)] == ["1", "0.12", "33.33", "0"]
    assert percent(0.5) == "50%"
    assert element("rect", x=1.234, width=None, height=3) == '<rect x="1.23" height="3"></rect>'
