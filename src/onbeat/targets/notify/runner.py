"""Sends notices: fills in their texts, and gives them to their channel."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from onbeat.model.channel import NO_TEMPLATE, Channel, Template, written_parts
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.outcome import Failed, Outcome
from onbeat.model.target import NotifyTarget
from onbeat.ports.clock import Clock
from onbeat.ports.notices import Notice, NoticeChannel, Templates, has_marks
from onbeat.ports.target import Run
from onbeat.rules.channels import check_recipient
from onbeat.rules.notices import facts_of, one_line

OpenChannel = Callable[[str, Channel], NoticeChannel]
"""Makes the adapter of a channel from its name and its record."""

LOOP_MARK: Final = "{%"


class NoticeRunner:
    """A job succeeds when its channel has taken the notice.

    `records` are the channels of the configuration by name; an adapter is made for its first
    notice. `templates` are those of the configuration, `texts` fills them in.
    """

    def __init__(
        self,
        records: Mapping[str, Channel],
        templates: Mapping[str, Template],
        texts: Templates,
        open_channel: OpenChannel,
        clock: Clock,
    ) -> None:
        self.records = records
        self.templates = templates
        self.texts = texts
        self.open_channel = open_channel
        self.clock = clock
        self.channels: dict[str, NoticeChannel] = {}

    async def open(self) -> None:
        """Does nothing: a channel is opened for its first notice."""

    async def close(self) -> None:
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            await channel.close()

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, NotifyTarget), "runs notices only"
        if target.channel not in self.records:
            return Failed(f"this worker has no channel named {target.channel!r}")
        if target.template is not None and target.template not in self.templates:
            return Failed(f"this worker has no template named {target.template!r}")
        try:
            notice = await self.notice(run, target)
        except Invalid as error:
            # Only a template of the configuration can be another one at the next attempt.
            return Failed(
                f"the notice was not sent: {error}", retryable=target.template is not None
            )
        try:
            return await self.channel(target.channel).send(notice)
        except Misconfigured as error:
            return Failed(f"channel {target.channel!r}: {error}")

    def channel(self, name: str) -> NoticeChannel:
        if name not in self.channels:
            self.channels[name] = self.open_channel(name, self.records[name])
        return self.channels[name]

    async def notice(self, run: Run, target: NotifyTarget) -> Notice:
        """Raises `Invalid` for texts that cannot be filled in, and a recipient that is none."""
        parts = written_parts(target, self.templates.get(target.template or "", NO_TEMPLATE))
        written = (target.to, parts.title, parts.text, parts.html)
        if any(text is not None and LOOP_MARK in text for text in written):
            return await asyncio.to_thread(self.filled_in, run, target, parts)
        return self.filled_in(run, target, parts)

    def filled_in(self, run: Run, target: NotifyTarget, parts: Template) -> Notice:
        to = target.to
        if to is not None and has_marks(to):
            facts = facts_of(run.job, target.data, None, self.clock.now(), run.events)
            to = self.texts.render(to, facts, "to").strip() or None
        check_recipient(self.records[target.channel], to, "to")
        facts = facts_of(run.job, target.data, to, self.clock.now(), run.events)
        title = self.render(parts.title, facts, "title")
        return Notice(
            run=run,
            to=to,
            title=one_line(title) or None if title else None,
            text=self.render(parts.text, facts, "text"),
            html=self.render(parts.html, facts, "html", is_html=True),
        )

    def render(
        self, text: str | None, facts: Mapping[str, object], field: str, *, is_html: bool = False
    ) -> str | None:
        return None if text is None else self.texts.render(text, facts, field, is_html=is_html)
