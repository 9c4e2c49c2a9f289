"""Texts filled in before there is an event: what depends on one is empty.

Onbeat fills in what is sent, and refuses what is missing. Here nearly all is.
"""

from typing import Any, Final

from liquid import Environment
from liquid.exceptions import LiquidError

LINK: Final = "https://notices.example/unsubscribe?s=6f1c2a"
FACTS: Final[dict[str, Any]] = {
    "data": {"event": {}, "name": "Ada", "language": "en", "unsubscribe": LINK}
}


def unchanged(value: object, *_: object, **__: object) -> object:
    """In place of each filter: none can fail for want of an event, or make a text grow."""
    return value


class Plain(Environment):
    local_namespace_limit = 1_000_000
    loop_iteration_limit = 10_000
    output_stream_limit = 1_000_000

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        super().setup_tags_and_filters(extra=extra)
        self.filters = dict.fromkeys(self.filters, unchanged)


def has_link(text: str) -> bool:
    """Whether the text shows the link to unsubscribe, whatever the event.

    A comment, the plain words, and a part under a condition on the event do not show it.
    """
    try:
        return LINK in Plain().from_string(text).render(**FACTS)
    except LiquidError:
        return False
