"""What is known of notices when a job or schedule is saved, and what is refused then."""

from collections.abc import Collection, Mapping
from datetime import UTC
from typing import Final, TypeVar

import msgspec

from onbeat.model.channel import (
    NO_TEMPLATE,
    AppriseService,
    Channel,
    ChatHook,
    Template,
    written_parts,
)
from onbeat.model.errors import Invalid
from onbeat.model.target import NotifyTarget
from onbeat.ports.notices import PLAIN_TEXTS, Templates, has_marks
from onbeat.rules.channels import check_recipient
from onbeat.rules.notices import Instant

Value = TypeVar("Value")

TRIED: Final = frozenset({"data", "now", "to"})
"""Names whose values are known when a notice is saved."""

SOME_TIME: Final = Instant(2000, 1, 1, tzinfo=UTC)


class Notices(msgspec.Struct, frozen=True):
    """The channels and the templates of this process by name, and what fills in texts.

    `channels` is None in a program that only sends, and leaves the channels to its workers.
    """

    channels: Mapping[str, Channel] | None = {}
    templates: Mapping[str, Template] | None = {}
    texts: Templates = PLAIN_TEXTS

    def check(
        self,
        target: NotifyTarget,
        prefix: str,
        known: Collection[str] | None,
        *,
        to_field: str | None = None,
    ) -> None:
        """Raises `Invalid` for a notice that could never be sent.

        `prefix` is the path of its fields, `to_field` the path of its recipient where that differs.
        `known` are the names that its texts may read; None leaves the texts to `check_texts`.
        """
        channel = named(self.channels, target.channel, "channel", prefix)
        template = NO_TEMPLATE
        if target.template is not None:
            template = named(self.templates, target.template, "template", prefix) or NO_TEMPLATE
        if isinstance(channel, ChatHook | AppriseService):
            check_words(target, written_parts(target, template), prefix)
        field = to_field or f"{prefix}to"
        if known is not None:
            self.check_texts(target, prefix, known, field)
        if target.to is None or not has_marks(target.to):
            check_recipient(channel, target.to, field)

    def check_texts(
        self, target: NotifyTarget, prefix: str, known: Collection[str], to_field: str
    ) -> None:
        """Raises `Invalid` for a text that does not parse, or reads another name.

        A recipient that is a text with marks is judged when it is filled in.
        """
        template = (self.templates or {}).get(target.template or "", NO_TEMPLATE)
        parts = written_parts(target, template)
        for name in ("title", "text", "html"):
            text = getattr(parts, name)
            if text is not None:
                self.check_text(target, text, f"{prefix}{name}", known)
        if target.to is not None and has_marks(target.to):
            self.check_text(target, target.to, to_field, frozenset(known) - {"to"})

    def check_text(
        self, target: NotifyTarget, text: str, field: str, known: Collection[str]
    ) -> None:
        """One that only reads what is known by now is filled in, so that a wrong name is found."""
        reads = self.texts.check(text, known, field)
        if "data" in reads and TRIED.issuperset(reads) and "{%" not in text:
            facts = {"data": msgspec.json.decode(target.data), "now": SOME_TIME}
            self.texts.render(text, facts | {"to": target.to or ""}, field)


NO_NOTICES: Final = Notices()


def check_words(target: NotifyTarget, parts: Template, prefix: str) -> None:
    if not (parts.title or parts.text):
        field = f"{prefix}{'text' if target.template is None else 'template'}"
        raise Invalid(f"{field}: the channel sends no HTML, so it needs a text", field)


def named(known: Mapping[str, Value] | None, name: str, noun: str, prefix: str) -> Value | None:
    """The one of this name; None where the names are not known here. Raises `Invalid`."""
    if known is None:
        return None
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Invalid(
            f"{prefix}{noun}: no {noun} is named {name!r}; the configuration's `{noun}s` has: "
            f"{names}",
            f"{prefix}{noun}",
        )
    return known[name]
