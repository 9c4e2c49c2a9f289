"""Services that Apprise knows, by URLs of the configuration."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import quote

import apprise

from onbeat.model.channel import AppriseService
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.outcome import Failed, Outcome, Snoozed, Succeeded
from onbeat.ports.notices import Notice
from onbeat.targets.breaker import Breakers
from onbeat.targets.notify.secrets import read_secret

RECIPIENT: Final = "{to}"
ASSET: Final = apprise.AppriseAsset(async_mode=False, secure_logging=True)

# Apprise leaves some of its types open.
instantiate: Final[Callable[..., apprise.NotifyBase | None]] = cast(
    "Any", apprise.Apprise
).instantiate


class AppriseChannel:
    """Implements `onbeat.ports.notices.NoticeChannel` by one service of Apprise, in a thread.

    Apprise does not tell temporary failures from others, so each is worth another attempt.
    """

    def __init__(self, name: str, service: AppriseService, breakers: Breakers) -> None:
        self.name = name
        self.service = service
        self.breakers = breakers

    async def close(self) -> None:
        """Does nothing: Apprise connects for each message."""

    async def send(self, notice: Notice) -> Outcome:
        try:
            service = self.service_for(notice.to)
        except Invalid as error:
            return Failed(f"channel {self.name!r}: {error}", retryable=False)
        call = self.breakers.call(f"channel {self.name!r}", notice.run.job)
        if isinstance(call, Snoozed):
            return call
        with call:
            is_sent = await asyncio.to_thread(notify, service, notice)
            call.succeed() if is_sent else call.fail("the service failed")
        return Succeeded() if is_sent else Failed(f"channel {self.name!r}: the service failed")

    def service_for(self, to: str | None) -> apprise.NotifyBase:
        """Raises `Invalid` for a recipient that the URL has no place for, or lacks."""
        url = read_secret(self.service.url)
        if len(url.split()) != 1:
            raise Misconfigured("its secret must hold one URL of Apprise")
        if (RECIPIENT in url) is (to is None):
            raise Invalid("it needs a recipient" if to is None else "its URL has no {to}", "to")
        filled = url if to is None else url.replace(RECIPIENT, quote(to, safe=""))
        service = instantiate(filled, asset=ASSET)
        if service is None:
            raise Misconfigured("what its secret holds is no URL that Apprise knows")
        return service


def notify(service: apprise.NotifyBase, notice: Notice) -> bool:
    sender: Any = apprise.Apprise(asset=ASSET)
    sender.add(service)
    return bool(
        sender.notify(
            body=notice.text or notice.title or "",
            title=notice.title or "" if notice.text else "",
            body_format=apprise.NotifyFormat.TEXT,
        )
    )
