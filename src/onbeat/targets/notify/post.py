"""Sends notices by HTTP, with the machinery of callbacks: guard, breaker, limits, Retry-After."""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from onbeat.model.credentials import HIDDEN
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.event import Event
from onbeat.model.outcome import Failed, Outcome, Snoozed, Succeeded
from onbeat.model.target import HttpTarget
from onbeat.ports.notices import Notice
from onbeat.ports.target import RunWithJob, TargetRunner
from onbeat.rules.urls import checked_url, shown_url

JSON: Final = {"Content-Type": "application/json"}
SECRET_PART_CHARS_MIN: Final = 8  # of a part of a path; shorter ones are words such as `services`
MakeTarget = Callable[[Notice], HttpTarget]


class PostChannel:
    """Implements `onbeat.ports.notices.NoticeChannel` by one request.

    A URL of a chat is a secret, so neither it nor what the chat answers gets into results; errors
    have the channel's name in its place.
    """

    def __init__(self, name: str, make: MakeTarget, callbacks: TargetRunner) -> None:
        self.name = name
        self.make = make
        self.callbacks = callbacks

    async def send(self, notice: Notice) -> Outcome:
        target = self.make(notice)
        job = msgspec.structs.replace(notice.run.job, target=target)
        outcome = await self.callbacks.run(PostRun(notice.run, job))
        return without_url(outcome, target.url, f"channel {self.name!r}")

    async def close(self) -> None:
        """Does nothing: the callbacks' runner belongs to the worker."""


class PostRun(RunWithJob):
    """The attempt with the request in the place of the notice."""

    @property
    def events(self) -> Sequence[Event]:
        """None: the request has its body."""
        return ()

    @property
    def is_question(self) -> bool:
        """A channel answers at once: it is given no address to report to."""
        return True


def post(url: str, body: object, secret: str | None = None) -> HttpTarget:
    return HttpTarget(
        url=url,
        method="POST",
        headers=JSON,
        body=msgspec.json.encode(body).decode(),
        secret=secret,
    )


def secret_url(text: str) -> str:
    """The URL in a secret. Raises `Misconfigured`, without it."""
    try:
        return checked_url(text)
    except Invalid as error:
        raise Misconfigured(f"what its secret holds is no URL of a webhook: {error}") from None


def without_url(outcome: Outcome, url: str, shown: str) -> Outcome:
    match outcome:
        case Succeeded():
            return Succeeded()
        case Failed(error=error):
            return msgspec.structs.replace(outcome, error=hidden(error, url, shown))
        case Snoozed(reason=str(reason)):
            return msgspec.structs.replace(outcome, reason=hidden(reason, url, shown))
        case _:
            return outcome


def hidden(text: str, url: str, shown: str) -> str:
    """The text with the name of the channel for its URL, and `***` for the secret parts of it."""
    text = text.replace(f"POST {shown_url(url)}", shown).replace(url, shown)
    parts = urlsplit(url)
    for part in sorted({*parts.path.split("/"), parts.path, parts.query}, key=len, reverse=True):
        if len(part) >= SECRET_PART_CHARS_MIN:
            text = text.replace(part, HIDDEN)
    return text
