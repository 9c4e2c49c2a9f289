"""Builds what sends notices: a runner, and the adapters of channels with their clients."""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Final

from onbeat.app.backend import Backend
from onbeat.app.notices import TEXTS, read_channels
from onbeat.model.channel import (
    AppriseService,
    Channel,
    ChatHook,
    MailServer,
    WebhookEndpoint,
)
from onbeat.model.errors import Misconfigured
from onbeat.ports.notices import NoticeChannel
from onbeat.ports.target import TargetRunner
from onbeat.rules.outages import OnOutage
from onbeat.targets.breaker import Breakers
from onbeat.targets.notify.chat import chat_target
from onbeat.targets.notify.post import MakeTarget, PostChannel
from onbeat.targets.notify.runner import NoticeRunner
from onbeat.targets.notify.webhook import webhook_target

NEEDS: Final[Mapping[type[Channel], tuple[str, str]]] = {
    MailServer: ("aiosmtplib", "notify"),
    AppriseService: ("apprise", "notify-more"),
}
"""The package that a kind of channel needs beside those of Onbeat, and the extra that has it."""


def notice_runner(
    backend: Backend, callbacks: TargetRunner, on_outage: OnOutage | None = None
) -> NoticeRunner:
    """Raises `Misconfigured` for a channel whose package is not installed."""
    options = backend.options
    records = read_channels(options.channels)
    for name, record in records.items():
        check_package(name, record)
    breakers = Breakers(backend.clock, backend.telemetry, on_outage)

    def open_channel(name: str, record: Channel) -> NoticeChannel:
        return adapter_of(name, record, backend, callbacks, breakers)

    return NoticeRunner(records, options.templates, TEXTS, open_channel, backend.clock)


def check_package(name: str, record: Channel) -> None:
    package, extra = NEEDS.get(type(record), (None, None))
    if package is not None and find_spec(package) is None:
        raise Misconfigured(
            f"channels: {name} needs the package {package}: pip install 'onbeat[{extra}]'",
            "channels",
        )


def adapter_of(
    name: str,
    record: Channel,
    backend: Backend,
    callbacks: TargetRunner,
    breakers: Breakers,
) -> NoticeChannel:
    """The adapter, whose client is loaded on demand."""
    match record:
        case MailServer():
            from onbeat.targets.notify.mail import MailChannel  # noqa: PLC0415

            return MailChannel(name, record, breakers, backend.clock)
        case AppriseService():
            from onbeat.targets.notify.more import AppriseChannel  # noqa: PLC0415

            return AppriseChannel(name, record, breakers)
        case ChatHook() | WebhookEndpoint():
            return PostChannel(name, request_maker(name, record), callbacks)


def request_maker(name: str, record: ChatHook | WebhookEndpoint) -> MakeTarget:
    if isinstance(record, ChatHook):
        return partial(chat_target, record)
    return partial(webhook_target, name, record)
