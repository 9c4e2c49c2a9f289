"""SVG elements as markup. This is the one module that tells templates what needs no escaping.

All text and all values of attributes are escaped; names of elements and attributes come from the
lists here. So nothing that a caller or a handler wrote can become an element.
"""

from collections.abc import Iterable
from typing import Final

from markupsafe import Markup

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
    """One element. `class_` stands for `class`, `_` for `-`; None leaves an attribute out."""
    assert name in ELEMENTS, name
    written = Markup("").join(
        written_attribute(attribute_name(key), value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{}{}>{}</{}>").format(name, written, joined(children), name)


def written_attribute(name: str, value: Value) -> Markup:
    assert name in ATTRIBUTES, name
    text = number(value) if isinstance(value, float) else str(value)
    assert name != "href" or is_local(text), "links lead to pages of the dashboard, or to marks"
    return Markup(' {}="{}"').format(name, text)


def is_local(href: str) -> bool:
    """Whether it is a path of the dashboard, or a mark that the page has drawn."""
    if href.startswith("#m-"):
        return True
    return href.startswith("/") and not href.startswith(("//", "/\\"))


def attribute_name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


def joined(parts: Iterable[Markup | str]) -> Markup:
    """One after the other; what is not markup is escaped."""
    return Markup("").join(parts)


def number(value: float) -> str:
    """With two digits at most: a pixel is a hundredth of what is drawn."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """A share of the width, from 0 to 1."""
    return f"{number(100 * share)}%"
