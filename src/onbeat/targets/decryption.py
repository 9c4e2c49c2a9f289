"""Decrypts a target just before it runs."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from onbeat.model.errors import Undecryptable
from onbeat.model.outcome import Outcome
from onbeat.model.target import HandlerTarget
from onbeat.ports.encryption import Cipher
from onbeat.ports.target import Run, RunWithJob, TargetRunner
from onbeat.rules.encryption import decrypt_target, needs_decryption, put_off


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
        return await self._runner.run(RunWithJob(run, job))
