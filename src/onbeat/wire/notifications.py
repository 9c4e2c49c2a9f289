"""Wire records of notifications: one notice for many people."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.limits import NOTICE_RECIPIENTS_MAX, RECIPIENT_CHARS_MAX
from onbeat.wire.jobs import OptionsBody
from onbeat.wire.targets import DataForm

Recipient = Annotated[str, Meta(max_length=RECIPIENT_CHARS_MAX)]
RecipientsForm = Annotated[
    Recipient | Annotated[tuple[Recipient, ...], Meta(max_length=NOTICE_RECIPIENTS_MAX)],
    Meta(description="One recipient or many; each gets a job of its own, doubles are one"),
]


class NotificationBody(OptionsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A notice for one or many recipients over a `channel` of the configuration.

    `text` or `html`, or a `template` of the configuration instead; they and the `title` may be
    Liquid, which reads `data`, `to`, `now` and `job`. `unique` counts for each recipient.
    """

    channel: str
    to: RecipientsForm | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET
    text: str | UnsetType | None = UNSET
    html: str | UnsetType | None = UNSET
    template: str | UnsetType | None = UNSET
    data: DataForm = UNSET


class SendNotification(msgspec.Struct, frozen=True):
    notification: NotificationBody


class NotificationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the jobs in the order of the recipients; `existing` are those that were there."""

    ids: tuple[str, ...]
    existing: tuple[str, ...] | UnsetType = UNSET
