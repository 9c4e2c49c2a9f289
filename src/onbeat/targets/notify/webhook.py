"""Notices as JSON to an endpoint of the configuration, signed as callbacks are."""

import msgspec

from onbeat.model.channel import WebhookEndpoint
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.target import HttpTarget
from onbeat.ports.notices import Notice
from onbeat.rules.urls import checked_secret
from onbeat.targets.notify.post import post
from onbeat.targets.notify.secrets import read_secret


class WebhookNotice(msgspec.Struct, frozen=True):
    """The body; `id` is the job's, the same at every attempt."""

    id: str
    channel: str
    to: str | None
    title: str | None
    text: str | None
    html: str | None


def webhook_target(name: str, endpoint: WebhookEndpoint, notice: Notice) -> HttpTarget:
    """The request. Raises `Misconfigured` without the secret."""
    body = WebhookNotice(notice.id, name, notice.to, notice.title, notice.text, notice.html)
    return post(endpoint.url, body, signing_secret(endpoint))


def signing_secret(endpoint: WebhookEndpoint) -> str | None:
    if endpoint.secret is None:
        return None
    try:
        return checked_secret(read_secret(endpoint.secret))
    except Invalid as error:
        raise Misconfigured(str(error)) from None
