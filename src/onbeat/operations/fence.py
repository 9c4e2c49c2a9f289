"""The fence of a store, which verifies tokens from outside."""

import secrets
from weakref import WeakKeyDictionary

from onbeat.model.errors import LeaseLost
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.worker import is_carried, is_remote
from onbeat.ports.access import AccessStore
from onbeat.rules.fence import SECRET_BYTES, Fence

FENCES: WeakKeyDictionary[AccessStore, Fence] = WeakKeyDictionary()
"""One per store of this process, read once: the secret never changes."""


async def fence_of(store: AccessStore) -> Fence:
    known = FENCES.get(store)
    if known is None:
        # Not from the randomness port: tests make it predictable, and this must be unpredictable.
        fresh = secrets.token_bytes(SECRET_BYTES)
        known = FENCES[store] = Fence(await store.secret(fresh))
    return known


async def open_token(store: AccessStore, id: JobId, text: str) -> Token:
    """The token inside the sealed text. Raises `LeaseLost` for a text that was never issued."""
    token = (await fence_of(store)).open(id, text)
    if token is None:
        raise LeaseLost(
            f"This token was not given out for job {id}; send the one that came with it"
        )
    return token


def is_held_elsewhere(job: Job) -> bool:
    """Whether a remote worker or a carrier holds the job."""
    return is_remote(job.worker) or is_carried(job.worker)
