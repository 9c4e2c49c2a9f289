"""Makes the options of an `Onbeat` from settings."""

from onbeat.app.notices import read_templates
from onbeat.app.options import Options
from onbeat.engine.options import RuntimeOptions
from onbeat.model.owner import Owner
from onbeat.rules.ip_policy import parse_allowed
from onbeat.settings import Settings
from onbeat.targets.http_options import HttpOptions


def options_from(settings: Settings) -> Options:
    return Options(
        runtime=runtime_options(settings),
        retry=settings.retry.policy,
        http=http_options(settings),
        commands=settings.commands.allow,
        drain_timeout=settings.worker.drain_timeout,
        transport=settings.transport,
        connections=settings.connections,
        channels=settings.channels,
        templates=read_templates(settings.templates),
        remote_tasks=settings.remote.tasks,
        remote_lease=settings.remote.lease,
        remote_fence=settings.remote.fence.value,
        sidecar=settings.worker.sidecar,
        encryption_keys=settings.secrets.keys,
        metrics_port=settings.metrics.port,
        metrics_host=settings.metrics.host,
        log_level=settings.logs.level.value if settings.logs.keep else None,
        secrets=settings.secret_values,
        public_url=settings.api.public_url,
    )


def owner_from(settings: Settings, of_program: Owner) -> Owner:
    """The owner that the settings name, else that of the program."""
    release = settings.release or of_program.release
    if settings.owner is not None:
        return Owner(settings.owner, release)
    return Owner(of_program.name, release, of_program.is_named)


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
        prefetch=settings.worker.prefetch,
        queues=settings.worker.queues,
        lease=settings.worker.lease,
        planner_interval=settings.planner.interval,
        horizon=settings.planner.horizon,
        keep=settings.prune.after,
        keep_failed=settings.prune.failed_after,
        keep_rules=settings.prune.rules,
        keep_audit=settings.prune.audit_after,
        keep_keys=settings.prune.keys_after,
        keep_events=settings.prune.events_after,
    )
