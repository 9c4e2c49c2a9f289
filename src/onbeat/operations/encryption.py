"""Encrypts targets and dead letters for the store, and decrypts jobs for remote workers."""

from collections.abc import Sequence
from typing import Final

import msgspec

from onbeat.model.credentials import HIDDEN
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Conflict, Invalid, Undecryptable
from onbeat.model.job import Job
from onbeat.model.target import HandlerTarget, Target
from onbeat.ports.encryption import Cipher
from onbeat.ports.store import Store
from onbeat.rules.encryption import (
    decrypt_letter,
    decrypt_target,
    encrypt_letter,
    encrypt_target,
    has_plain_credentials,
    needs_decryption,
)

NO_KEY: Final = (
    "its arguments are to be encrypted, and no key is configured: make one with"
    " `onbeat secrets new-key` and set it as `secrets.keys`"
)


def encrypted_target(
    cipher: Cipher, target: Target, before: Target | None = None, field: str = "target"
) -> Target:
    """The target in its stored form. Raises `Invalid` where it needs a key and none is configured.

    `before` is the stored target that it replaces: if only the encryption differs, `before` is
    returned, so that putting an unchanged target is no edit.
    """
    if isinstance(target, HandlerTarget) and not target.encrypted:
        return target
    if cipher.key_id is None:
        if isinstance(target, HandlerTarget):
            raise Invalid(f"task {target.task!r}: {NO_KEY}", f"{field}.encrypted")
        return target
    if before is not None and is_same_in_clear(cipher, before, target):
        return before
    return encrypt_target(target, cipher.encrypt)


def is_same_in_clear(cipher: Cipher, before: Target, target: Target) -> bool:
    """Whether the stored target is encrypted and has the same content as this one."""
    if not needs_decryption(before) or has_plain_credentials(before):
        return False
    try:
        return decrypt_target(before, cipher.decrypt) == decrypt_target(target, cipher.decrypt)
    except Undecryptable:
        return False


def encrypted_jobs(cipher: Cipher, jobs: Sequence[Job]) -> Sequence[Job]:
    """The jobs in their stored form. Raises `Invalid` where one needs a key and there is none."""
    has_key = cipher.key_id is not None
    for job in jobs:
        if job.target.encrypted if type(job.target) is HandlerTarget else has_key:
            return [encrypted_job(cipher, job) for job in jobs]
    return jobs  # the common case, for batches of thousands


def encrypted_job(cipher: Cipher, job: Job) -> Job:
    """The job in its stored form. Raises `Invalid` where it needs a key and there is none."""
    target = encrypted_target(cipher, job.target)
    return job if target is job.target else msgspec.structs.replace(job, target=target)


def decrypted_job(cipher: Cipher, job: Job) -> Job:
    """The job in clear. Raises `Undecryptable`."""
    if not needs_decryption(job.target):
        return job
    return msgspec.structs.replace(job, target=decrypt_target(job.target, cipher.decrypt))


async def keep_letter(store: Store, cipher: Cipher, dead_letter: DeadLetter) -> None:
    """Store a dead letter, encrypted where there is a key."""
    stored = dead_letter if cipher.key_id is None else encrypt_letter(dead_letter, cipher.encrypt)
    await store.add_dead_letters([stored])


def shown_letter(cipher: Cipher, dead_letter: DeadLetter) -> DeadLetter:
    """The dead letter in clear; without a body where it cannot be decrypted here."""
    try:
        return decrypt_letter(dead_letter, cipher.decrypt)
    except Undecryptable:
        return msgspec.structs.replace(dead_letter, body=HIDDEN.encode())


def decrypted_letter(cipher: Cipher, dead_letter: DeadLetter) -> DeadLetter:
    """The dead letter in clear. Raises `Conflict` where it cannot be decrypted here."""
    try:
        return decrypt_letter(dead_letter, cipher.decrypt)
    except Undecryptable as error:
        raise Conflict(f"The dead letter cannot be decrypted: {error}") from None
