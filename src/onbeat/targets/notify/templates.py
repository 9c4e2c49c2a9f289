"""Templates in Liquid: compiled once, strict about names, bounded in what they do."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import TEMPLATE_CHARS_MAX
from onbeat.ports.notices import has_marks
from onbeat.rules.facts import JOB_FACTS, no_such_fact
from onbeat.targets.notify.broken import Broken

if TYPE_CHECKING:
    from onbeat.targets.notify.liquid_engine import Compiled

SHORT_CHARS_MAX: Final = 4_000  # a compiled text takes about a hundred times its length


class LiquidTemplates:
    """Implements `onbeat.ports.notices.Templates` by python-liquid, of the extra `notify`."""

    def check(self, text: str, names: Collection[str], field: str) -> Collection[str]:
        if not has_marks(text):
            return ()
        found = compiled(text, field)
        for name, index in found.reads.items():
            if name not in names:
                known = ", ".join(sorted(names))
                raise Invalid(
                    f"{field}{place(text, index)}: there is no {name!r} here; known are {known}",
                    field,
                )
        for name, member, index in found.members:
            if name == "job" and member not in JOB_FACTS:
                raise Invalid(f"{field}{place(text, index)}: {no_such_fact(member)}", field)
        return found.reads

    def render(
        self, text: str, facts: Mapping[str, object], field: str, *, is_html: bool = False
    ) -> str:
        if not has_marks(text):
            return text
        template = compiled(text, field, is_html=is_html)
        try:
            return template.render(facts)
        except Broken as error:
            raise Invalid(f"{field}{place(text, error.index)}: {error}", field) from None


def compiled(text: str, field: str, *, is_html: bool = False) -> "Compiled":
    """Raises `Invalid` for a text that does not parse, and without the extra."""
    if len(text) > TEMPLATE_CHARS_MAX:
        raise TooLarge(f"{field}: a template has at most {TEMPLATE_CHARS_MAX} characters", field)
    if find_spec("liquid") is None:
        raise Invalid(f"{field}: templates need the extra: pip install 'onbeat[notify]'", field)
    try:
        return compile_text(text, is_html)
    except Broken as error:
        raise Invalid(f"{field}{place(text, error.index)}: {error}", field) from None


def compile_text(text: str, is_html: bool) -> "Compiled":  # noqa: FBT001  the key of a cache
    return (compile_short if len(text) <= SHORT_CHARS_MAX else compile_long)(text, is_html)


def compiled_anew(text: str, is_html: bool) -> "Compiled":  # noqa: FBT001  as above
    from onbeat.targets.notify.liquid_engine import Compiled  # noqa: PLC0415  slow to load

    return Compiled(text, is_html=is_html)


compile_short = lru_cache(500)(compiled_anew)
compile_long = lru_cache(10)(compiled_anew)


def place(text: str, index: int | None) -> str:
    """`, line 2, column 5`, both from 1; nothing where the place is not known."""
    if index is None:
        return ""
    before = text[:index]
    return f", line {before.count(chr(10)) + 1}, column {index - before.rfind(chr(10))}"
