"""SVG elements as markup. This is the one module that tells templates what needs no escaping.

All text and all values of attributes are escaped; names of elements and attributes come from the
lists here. So nothing that a caller or a handler wrote can become an element.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

from markupsafe import Markup, escape

ELEMENTS: Final = frozenset(
    {"svg", "g", "a", "path", "rect", "line", "circle", "text", "title", "use"}
    | {"defs", "pattern"}
)
ATTRIBUTES: Final = frozenset(
    {
        *("class", "href", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d"),
        *("width", "height", "rx", "viewBox", "preserveAspectRatio", "overflow", "fill", "role"),
        *("aria-label", "aria-hidden", "text-anchor", "id", "patternUnits"),
        *("data-first", "data-last", "data-buckets", "data-zone", "data-now"),
    }
)
Value = str | int | float


def element(name: str, *children: Markup | str, **attributes: Value | None) -> Markup:
    """One element. `class_` stands for `class`, `_` for `-`; None leaves an attribute out.

    A page has thousands, so they are put together as plain text, every part of which is escaped.
    """
    assert name in ELEMENTS, name
    written = "".join(
        [written_attribute(key, value) for key, value in attributes.items() if value is not None]
    )
    text = f"<{name}{written}>{joined(children)}</{name}>"
    return Markup(text)  # noqa: S704  its name is listed, and the rest was escaped


def written_attribute(key: str, value: Value) -> str:
    """The attribute with a space before it, its value escaped."""
    name = attribute_name(key)
    if isinstance(value, int):
        return f' {name}="{value:d}"'
    if isinstance(value, float):
        return f' {name}="{number(value)}"'
    assert name != "href" or is_local(value), "links lead to pages of the dashboard, or to marks"
    # Markup too: an attribute holds text.
    return f' {name}="{escape(str(value))}"'


def is_local(href: str) -> bool:
    """Whether it is a path of the dashboard, or a mark that the page has drawn."""
    if href.startswith("#m-"):
        return True
    return href.startswith("/") and not href.startswith(("//", "/\\"))


@cache
def attribute_name(key: str) -> str:
    """Of the names above, so that few are kept."""
    name = key.removesuffix("_").replace("_", "-")
    assert name in ATTRIBUTES, name
    return name


def joined(parts: Iterable[Markup | str]) -> Markup:
    """One after the other; what is not markup is escaped."""
    texts = [one if isinstance(one, Markup) else escape(one) for one in parts]
    return Markup("".join(texts))  # noqa: S704  each of them is escaped


def number(value: float) -> str:
    """With two digits at most: a pixel is a hundredth of what is drawn."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """A share of the width, from 0 to 1."""
    return f"{number(100 * share)}%"
