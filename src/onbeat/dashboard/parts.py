"""Sections of a page that can be asked for alone, with `?part=NAME`."""

from collections.abc import Callable

from markupsafe import Markup

from onbeat.model.errors import Invalid
from onbeat.wire.decode import safe_text

SECTION = Markup(
    '<section class="part" id="part-{name}" data-part="{name}" data-on="{on}" data-title="{title}">'
    "{body}</section>"
)


class Parts:
    """Marks the sections of one page: `{% call part("list", "jobs") %}...{% endcall %}`.

    `on` names what changes the section, separated by spaces: `jobs`, `queues`, `schedules`,
    `faults`, `workers`, `alerts` or `pulse`, and `job:ID`, `log:ID`, `flow:ID`, `fault:ID` or
    `schedule:ID` for one thing. Page and part have the same text, as both come from one template.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.texts: dict[str, Markup] = {}

    def __call__(self, name: str, on: str, caller: Callable[[], Markup]) -> Markup:
        self.texts[name] = SECTION.format(name=name, on=on, title=self.title, body=caller())
        return self.texts[name]

    def of(self, name: str) -> str:
        """Raises `Invalid` where the page has no such part."""
        if name not in self.texts:
            known = ", ".join(self.texts) or "none"
            raise Invalid(f"part: this page has no {safe_text(name)!r}; it has {known}", "part")
        return self.texts[name]
