"""Makes the options of an `Onbeat` from settings."""

from onbeat.app.options import Options
from onbeat.engine.options import RuntimeOptions
from onbeat.rules.ip_policy import parse_allowed
from onbeat.settings import Settings
from onbeat.targets.http_options import HttpOptions


def options_from(settings: Settings) -> Options:
    return Options(
        runtime=runtime_options(settings),
        retry=settings.retry.policy,
        http=http_options(settings),
        drain_timeout=settings.worker.drain_timeout,
        transport=settings.transport,
        connections=settings.connections,
        remote_tasks=frozenset(settings.remote.tasks),
        remote_lease=settings.remote.lease,
        sidecar=settings.worker.sidecar,
        encryption_keys=settings.secrets.keys,
    )


def http_options(settings: Settings) -> HttpOptions:
    return HttpOptions(
        timeout=settings.http.timeout,
        private_allowed=settings.allows_private,
        allowed=parse_allowed(settings.http.allow),
    )


def runtime_options(settings: Settings) -> RuntimeOptions:
    return RuntimeOptions(
        roles=frozenset(settings.roles),
        concurrency=settings.worker.concurrency,
        prefetch=settings.worker.prefetch_count,
        queues=settings.worker.queues,
        lease=settings.worker.lease,
        planner_interval=settings.planner.interval,
        horizon=settings.planner.horizon,
        keep=settings.prune.after,
        keep_failed=settings.prune.failed_after,
        keep_audit=settings.prune.audit_after,
        keep_keys=settings.prune.keys_after,
    )
