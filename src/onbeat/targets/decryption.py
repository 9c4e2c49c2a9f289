"""Decrypts a target just before it runs."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

import msgspec

from onbeat.model.errors import Undecryptable
from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Outcome
from onbeat.model.target import HandlerTarget
from onbeat.ports.encryption import Cipher
from onbeat.ports.target import Run, TargetRunner
from onbeat.rules.encryption import decrypt_target, needs_decryption, put_off


class DecryptedRun:
    """Implements `onbeat.ports.target.Run` with a decrypted job."""

    def __init__(self, run: Run, job: Job) -> None:
        self._run = run
        self._job = job

    @property
    def job(self) -> Job:
        return self._job

    @property
    def deadline(self) -> datetime | None:
        return self._run.deadline

    @property
    def stop_reason(self) -> str | None:
        return self._run.stop_reason

    def note_progress(self, progress: Progress) -> None:
        self._run.note_progress(progress)

    def is_held(self) -> bool:
        return self._run.is_held()

    def is_closed(self) -> bool:
        return self._run.is_closed()

    async def confirm(self) -> None:
        await self._run.confirm()


class DecryptingRunner:
    """Implements `onbeat.ports.target.TargetRunner` around another runner.

    An attempt whose target cannot be decrypted is postponed, which costs no attempt.
    """

    def __init__(self, runner: TargetRunner, cipher: Cipher) -> None:
        self._runner = runner
        self._cipher = cipher

    async def open(self) -> None:
        await self._runner.open()

    async def close(self) -> None:
        await self._runner.close()

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]:
        target = run.job.target
        # One byte is enough for most tasks, and thousands run per second.
        if type(target) is HandlerTarget and bytes(target.args)[:1] == b"[":
            return self._runner.run(run)
        return self._run_decrypted(run) if needs_decryption(target) else self._runner.run(run)

    async def _run_decrypted(self, run: Run) -> Outcome:
        try:
            target = decrypt_target(run.job.target, self._cipher.decrypt)
        except Undecryptable as error:
            return put_off(error)
        job = msgspec.structs.replace(run.job, target=target)
        return await self._runner.run(DecryptedRun(run, job))
