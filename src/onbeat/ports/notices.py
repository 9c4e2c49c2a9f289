"""Notices, the channels that send them, and the templates that they are made from."""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Outcome
from onbeat.ports.target import Run


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What one person is told, with nothing left to fill in; `run` is the attempt that sends it.

    `id` is that of the job, so it is the same at every attempt. `title` is one line.
    """

    run: Run
    to: str | None
    title: str | None
    text: str | None
    html: str | None

    @property
    def id(self) -> str:
        return self.run.job.id


class NoticeChannel(Protocol):
    """One way to people."""

    async def send(self, notice: Notice) -> Outcome:
        """Send to the notice's recipient, once. Raises nothing that concerns the channel."""
        ...

    async def close(self) -> None: ...


class Templates(Protocol):
    """Fills in texts. A text without template marks stays as it is."""

    def check(self, text: str, names: Collection[str], field: str) -> Collection[str]:
        """The names that the text reads. Raises `Invalid` with the field and the place in the text.

        Refused are texts that do not parse, that read a name which is not among `names`, or that
        are longer than `TEMPLATE_CHARS_MAX`; and all of them without the extra `notify`.
        """
        ...

    def render(
        self, text: str, facts: Mapping[str, object], field: str, *, is_html: bool = False
    ) -> str:
        """The text with the facts, which are escaped where it is HTML.

        Raises `Invalid` with the field and the place in the text if a fact is missing, or a bound
        is exceeded.
        """
        ...


def has_marks(text: str) -> bool:
    """Whether the text is a template: others stay as they are."""
    return "{{" in text or "{%" in text


class PlainTexts:
    """Implements `Templates` for texts without template marks only."""

    def check(self, text: str, names: Collection[str], field: str) -> Collection[str]:
        if has_marks(text):
            raise Invalid(f"{field}: templates cannot be filled in here", field)
        return ()

    def render(
        self, text: str, facts: Mapping[str, object], field: str, *, is_html: bool = False
    ) -> str:
        self.check(text, (), field)
        return text


PLAIN_TEXTS = PlainTexts()
