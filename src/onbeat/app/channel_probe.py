"""Sends one notice at once, without a job: a test of a channel's configuration."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from onbeat.app.call import notify
from onbeat.app.channels import notice_runner
from onbeat.app.composition import callback_runner
from onbeat.app.configure import options_from
from onbeat.app.local_backend import LocalBackend
from onbeat.model.outcome import Failed, Outcome, Snoozed
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import NotifyTarget
from onbeat.ports.target import UnleasedRun
from onbeat.rules.notices import ALWAYS_KNOWN
from onbeat.settings import Settings

PROBE_TIMEOUT: Final = timedelta(seconds=30)


async def send_now(
    settings: Settings, channel: str, to: str | None, content: Mapping[str, Any]
) -> str | None:
    """Why the notice was not sent; None if it was. Raises `Invalid` and `Misconfigured`."""
    backend = LocalBackend("memory://", options=options_from(settings))
    call = notify(channel, to, **content)
    assert isinstance(call.target, NotifyTarget)
    backend.context.notices.check(call.target, "", ALWAYS_KNOWN)
    callbacks = callback_runner(backend)
    runner = notice_runner(backend, callbacks)
    now = backend.clock.now()
    job = call.job(backend.randomness.ids(1)[0], now, RetryPolicy())
    try:
        return failure_of(await runner.run(UnleasedRun(job, deadline=now + PROBE_TIMEOUT)))
    finally:
        await runner.close()
        await callbacks.close()


def failure_of(outcome: Outcome) -> str | None:
    match outcome:
        case Failed(error=error):
            return error
        case Snoozed(reason=reason):
            return reason or "the channel asked to wait"
        case _:
            return None
