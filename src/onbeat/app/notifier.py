"""`beat.notify`: one notice for many people, each with a job of its own."""

from collections.abc import Iterable

from msgspec.structs import replace

from onbeat.app.backend import Backend
from onbeat.app.call import Call, NoticeOptions, notify
from onbeat.app.notices import notices_of
from onbeat.model.target import NotifyTarget
from onbeat.rules.notices import ALWAYS_KNOWN, distinct_recipients, key_for

Recipients = str | Iterable[str] | None


def calls_for(
    backend: Backend, channel: str, to: Recipients, given: NoticeOptions
) -> list[Call[None]]:
    """A call for each recipient. Raises `Invalid` naming the argument.

    A program without channels leaves them, and the templates, to its workers or its service.
    """
    call = notify(channel, **given)
    assert isinstance(call.target, NotifyTarget)
    if to is None or isinstance(to, str):
        recipients: dict[str | None, str] = {to: "to"}
    else:
        recipients = distinct_recipients(to)
    known = notices_of(backend.options.channels, backend.options.templates)
    if not known.channels:
        known = replace(known, channels=None, templates=None)
    result: list[Call[None]] = []
    for one, field in recipients.items():
        target = replace(call.target, to=one)
        known.check(target, "", ALWAYS_KNOWN, to_field=field)
        job = call.options.job
        own = replace(job, unique=key_for(job.unique, one))
        result.append(Call(target, replace(call.options, job=own)))
    return result
