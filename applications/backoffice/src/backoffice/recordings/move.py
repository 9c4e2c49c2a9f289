"""One recording goes from its server to S3: fetch, trim, put, row, delete.

Each step looks first whether it is done, so a process may be killed at any point and another one
begins again: the object names its row, the row says `processed`, and a source that is gone is
deleted.
"""

import asyncio
import logging
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Final

from backoffice.database import Database
from backoffice.recordings.ari import Ari, RefusedError, checked_name
from backoffice.recordings.bucket import Bucket, key_of
from backoffice.recordings.trim import OtherFormError, trim
from backoffice.settings import SettingsApi

log = logging.getLogger(__name__)

COMPLETED: Final = "completed"
PROCESSED: Final = "processed"


@dataclass(frozen=True)
class Recording:
    """A row of `recordings`."""

    id: int
    status: str
    storage_id: str
    server: str
    is_trimmed: bool


@dataclass(frozen=True)
class Places:
    """Where rows, recordings and the bucket are."""

    database: Database
    settings: SettingsApi
    ari: Ari


class ChangedError(Exception):
    """The row was changed by somebody else meanwhile; look again."""


async def move(places: Places, id: int) -> str:
    """Move the recording; what there was to do: `moved`, `deleted`, `gone` or its other status.

    Raises `RefusedError` for one that can never be moved as it stands, and whatever a server, S3,
    the settings API or the database raises.
    """
    recording = await read(places.database, id)
    if recording is None:
        return "gone"
    if recording.status not in {COMPLETED, PROCESSED}:
        return recording.status
    key = key_of(checked_name(recording.storage_id))
    bucket = Bucket(await places.settings.user_settings())
    owner = await bucket.owner_of(key)
    if owner not in {None, str(id)}:
        raise RefusedError(f"{key} is there already, and not of recording {id}")
    if recording.status == COMPLETED:
        if owner is None:
            await upload(places.ari, bucket, recording, key)
        await note(places.database, id, bucket.url_of(key))
    elif owner is None:
        raise RefusedError(f"recording {id} is processed, but there is no {key}: its source stays")
    await places.ari.delete(recording.server, recording.storage_id)
    return "moved" if recording.status == COMPLETED else "deleted"


async def read(database: Database, id: int) -> Recording | None:
    async with database.session() as session:
        row = await session.row(
            "SELECT id, status, storage_id, storage_server_ip, trim FROM recordings WHERE id = ?",
            id,
        )
    if row is None:
        return None
    return Recording(int(row[0]), str(row[1]), str(row[2]), str(row[3]), row[4] == "true")


async def upload(ari: Ari, bucket: Bucket, recording: Recording, key: str) -> None:
    """Put what the server has, trimmed if that is wanted. The files go with this process."""
    with TemporaryFile() as fetched, TemporaryFile() as trimmed:
        await ari.fetch(recording.server, recording.storage_id, fetched)
        shorter = recording.is_trimmed and await without_silence(recording, fetched, trimmed)
        await bucket.put(key, trimmed if shorter else fetched, str(recording.id))


async def without_silence(recording: Recording, source: IO[bytes], target: IO[bytes]) -> bool:
    """Whether `target` has it now. A recording in another form is kept whole."""
    source.seek(0)
    try:
        frames = await asyncio.to_thread(trim, source, target)
    except OtherFormError as error:
        log.warning("recording %d is not trimmed: %s", recording.id, error)
        return False
    log.info("recording %d is trimmed: %s", recording.id, frames)
    return True


async def note(database: Database, id: int, url: str) -> None:
    async with database.session() as session:
        changed = await session.run(
            "UPDATE recordings SET status = ?, s3_url = ? WHERE id = ? AND status = ?",
            PROCESSED,
            url,
            id,
            COMPLETED,
        )
    if not changed:
        raise ChangedError(f"recording {id} was changed meanwhile")


async def count_attempt(database: Database, id: int) -> None:
    """One more attempt has failed, of a recording that is still to be moved."""
    async with database.session() as session:
        await session.run(
            "UPDATE recordings SET relocation_attempts = relocation_attempts + 1"
            " WHERE id = ? AND status = ?",
            id,
            COMPLETED,
        )
