"""The daily look at the folder of uploads: what nothing wants any more goes."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from credits.config import Config
from credits.database import Session, stamp
from credits.uploads.folder import old_files
from credits.uploads.removals import forget_orphans, remove_unwanted, take_notes
from credits.uploads.wanted import collect, make_table, put

FILES_ALWAYS: Final = 100
"""So many may go in one run, whatever share of all they are."""


class TooManyError(Exception):
    """Most files seem to be unwanted, which is more likely a wrong setting than true."""


@dataclass(frozen=True)
class Swept:
    """What a run did. Counts of files but for `records`; `odd` are records of another form."""

    files: int
    records: int
    removed: int
    missing: int
    refused: int
    odd: int


async def sweep(session: Session, config: Config, at: datetime) -> Swept:
    """Remove old files that nothing wants, and records whose block is gone.

    Files are listed before what wants them, so a new reference is seen. Any step may be repeated.
    Raises `TooManyError` before anything is removed.
    """
    await list_files(session, config, at)
    await take_notes(session, at)
    await collect(session, config.sites, at - config.grace)
    files, unwanted = await count(session)
    if unwanted > max(FILES_ALWAYS, config.remove_share_max * files):
        raise TooManyError(
            f"{unwanted} of {files} files seem to be unwanted, and all are left: see that SITE_URL"
            " and FORMER_SITE_URLS are right, or set UPLOADS_REMOVE_SHARE_MAX=1"
        )
    records = await forget_orphans(session, config, at)
    await session.run(
        "INSERT INTO noted_paths (path) SELECT unwanted FROM"
        " (SELECT f.path AS unwanted FROM found_files f LEFT JOIN wanted_paths w ON w.path = f.path"
        " WHERE w.path IS NULL) AS those WHERE unwanted IS NOT NULL {keep_path}"
    )
    await session.run(
        "INSERT INTO upload_removals (path, noted_at) SELECT those, ? FROM"
        " (SELECT path AS those FROM noted_paths) AS noted WHERE those IS NOT NULL {keep_path}",
        stamp(at),
    )
    fates = await remove_unwanted(session, config, at)
    return Swept(
        files=files,
        records=records["records"],
        removed=fates["removed"],
        missing=fates["missing"],
        refused=fates["refused"],
        odd=records["odd"],
    )


async def list_files(session: Session, config: Config, at: datetime) -> None:
    await make_table(session, "found_files")
    files = old_files(config.uploads, at - config.grace)
    while portion := await asyncio.to_thread(next, files, None):
        await put(session, "found_files", portion)


async def count(session: Session) -> tuple[int, int]:
    """Of all files, and of those that nothing wants."""
    ((files, unwanted),) = await session.rows(
        "SELECT count(*), coalesce(sum(w.path IS NULL), 0) FROM found_files f"
        " LEFT JOIN wanted_paths w ON w.path = f.path"
    )
    return int(files), int(unwanted)
