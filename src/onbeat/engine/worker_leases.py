"""Applies to a worker what the store says of its leases."""

from collections.abc import Mapping, Sequence

from onbeat.engine.handed_back import Lease
from onbeat.engine.heartbeat import LeaseAnswer
from onbeat.engine.running_attempt import RunningAttempt, StopReason
from onbeat.engine.worker import HandledAttempt, JobRunner
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Released
from onbeat.ports.store import HeldLease

TAKEN_AWAY = "another worker holds this job now"


class WorkerLeases:
    """The leases of one worker, as heartbeats know them: implements `LeaseHolder`."""

    def __init__(self, worker: JobRunner) -> None:
        self.worker = worker
        self.orphaned_leases: frozenset[Lease] = frozenset()

    @property
    def running(self) -> Mapping[JobId, RunningAttempt]:
        return self.worker.running

    @property
    def unbegun(self) -> Sequence[Job]:
        return self.worker.unbegun

    def reconcile_leases(self, answer: LeaseAnswer) -> None:
        """Apply the store's answer to the attempts that were known before the heartbeat was sent.

        A lease that the store no longer has is lost: the attempt is stopped, or never begins, and
        writes nothing. If its handler has settled the job itself, that ended the lease.
        """
        by_id = {lease.job_id: lease for lease in answer.held}
        for running in answer.known:
            lease = by_id.get(running.job.id)
            if lease is None and has_finished(running):
                continue
            if lease is None or lease.token != running.job.token:
                running.request_stop(StopReason.LEASE_LOST, TAKEN_AWAY)
        kept = {(lease.job_id, lease.token) for lease in answer.held}
        self.abandon_lost([job for job in answer.unbegun if (job.id, job.token) not in kept])
        self.cancel(
            {
                (lease.job_id, lease.token): lease.cancel_reason
                for lease in answer.held
                if lease.cancel_reason is not None
            }
        )
        self.return_orphaned_leases(answer.held)

    def abandon_lost(self, lost: Sequence[Job]) -> None:
        """Drop waiting jobs whose lease is lost, and stop those that have just begun."""
        for job in self.worker.take_unbegun({(job.id, job.token) for job in lost}):
            self.worker.telemetry.lease_lost(job)
        for job in lost:
            running = self.worker.running.get(job.id)
            if running is not None and running.job.token == job.token:
                running.request_stop(StopReason.LEASE_LOST, TAKEN_AWAY)

    def cancel(self, reasons: Mapping[Lease, str]) -> None:
        """Stop the attempts under these leases; jobs that still wait here do not begin."""
        for (id, token), reason in reasons.items():
            running = self.worker.running.get(id)
            if running is not None and running.job.token == token:
                running.request_stop(StopReason.CANCEL, reason)
        for job in self.worker.take_unbegun(reasons.keys()):
            cancelled = Cancelled(reasons[job.id, job.token], unstarted=True)
            self.worker.spawn(self.worker.record(job, cancelled))

    def return_orphaned_leases(self, held: Sequence[HeldLease]) -> None:
        """Hand back leases that the store attributes to this worker but that it does not know.

        They come from a claim whose answer was lost. A lease counts as orphaned when two answers in
        a row name it, since a single answer may cross a claim that is just arriving.
        """
        mine = self.worker.known_jobs()
        strays = frozenset(
            (lease.job_id, lease.token) for lease in held if lease.job_id not in mine
        )
        for id, token in sorted(strays & self.orphaned_leases):
            self.worker.spawn(self.hand_back(id, token))
        self.orphaned_leases = strays

    async def hand_back(self, id: JobId, token: Token) -> None:
        job = await self.worker.store.job(id)
        if job is None or job.token != token or job.state is not JobState.RUNNING:
            return
        # The answer to a slow claim may have arrived after all.
        if id not in self.worker.known_jobs():
            self.worker.handed_back.add((id, token))
            await self.worker.record(job, Released())


def has_finished(running: RunningAttempt) -> bool:
    return isinstance(running, HandledAttempt) and running.finished is not None
