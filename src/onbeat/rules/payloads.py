"""What is left of a sensitive job after its end."""

from msgspec.structs import replace

from onbeat.model.job import Job
from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)


def without_payload(job: Job) -> Job:
    """The ended job without what it worked on; others than sensitive ones unchanged."""
    if not job.sensitive:
        return job
    return replace(job, target=bare_target(job.target), condition=None)


def bare_target(target: Target) -> Target:
    """Whom the job called, without arguments, bodies, headers and the query of a URL."""
    match target:
        case HandlerTarget():
            return HandlerTarget(target.task)
        case HttpTarget():
            return HttpTarget(target.url.partition("?")[0], target.method)
        case MessageTarget():
            return MessageTarget(target.to, target.queue)
        case NotifyTarget():
            return NotifyTarget(target.channel, target.to)
        case CommandTarget():
            return CommandTarget(target.argv[:1])
