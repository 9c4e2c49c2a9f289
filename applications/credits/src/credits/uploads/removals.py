"""Removal of files in two steps: noted in the transaction that takes away the owner, then done.

A note outlives a crash. It is kept until its file is gone, or is wanted after all. A run follows
the notes that were there before it looked for what wants files, in its table `noted_paths`: it does
not know what wants the file of a later one.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from credits.config import Config
from credits.database import Session, stamp
from credits.uploads import folder
from credits.uploads.addresses import is_elsewhere, paths_of
from credits.uploads.wanted import collect, make_table, put

PORTION: Final = 500
ORPHANS: Final = """
    SELECT u.id, u.original_url FROM uploads u LEFT JOIN blocks b ON b.id = u.block_id
    WHERE u.id > ? AND u.block_id IS NOT NULL AND b.id IS NULL AND u.timestamp < ?
    ORDER BY u.id LIMIT ?
"""


async def note(session: Session, paths: Iterable[str], at: datetime) -> None:
    """In a transaction of the caller."""
    await session.many(
        "INSERT INTO upload_removals (path, noted_at) VALUES (?, ?) {keep_path}",
        [(path, stamp(at)) for path in dict.fromkeys(paths)],
    )


async def forget_block(session: Session, block: str, config: Config, at: datetime) -> None:
    """Delete a block and the records of its uploads, and note their files.

    In a transaction of the caller, after which `remove_noted_uploads` is to be sent.
    """
    found = await session.rows("SELECT id, original_url FROM uploads WHERE block_id = ?", block)
    await forget_uploads(session, [(str(id), str(url)) for id, url in found], config, at)
    await session.run("DELETE FROM blocks WHERE id = ?", block)


async def forget_uploads(
    session: Session, uploads: Sequence[tuple[str, str]], config: Config, at: datetime
) -> Sequence[str]:
    """Delete these records, of an id and an address each, and note their files and variants."""
    noted: list[str] = []
    for id, url in uploads:
        variants = await session.rows("SELECT url FROM upload_variants WHERE upload_id = ?", id)
        urls = [url, *(str(variant) for (variant,) in variants)]
        paths = [path for each in urls for path in paths_of(each, config.sites)]
        await note(session, paths, at)
        noted += paths
    ids = [(id,) for id, _ in uploads]
    await session.many("DELETE FROM upload_variants WHERE upload_id = ?", ids)
    await session.many("DELETE FROM uploads WHERE id = ?", ids)
    return noted


async def forget_orphans(session: Session, config: Config, at: datetime) -> Counter[str]:
    """Delete the records whose block is gone, and note their files, also in `noted_paths`.

    An address of another form is left alone, as nobody knows what it names.
    """
    counts: Counter[str] = Counter()
    after, before = "", at - config.grace
    while rows := await session.rows(ORPHANS, after, stamp(before), PORTION):
        uploads = [(str(id), str(url)) for id, url in rows]
        known = [(id, url) for id, url in uploads if is_known(url, config)]
        async with session.transaction():
            noted = await forget_uploads(session, known, config, at)
        await put(session, "noted_paths", noted)
        counts["records"] += len(known)
        counts["odd"] += len(uploads) - len(known)
        after = uploads[-1][0]
    return counts


def is_known(url: str, config: Config) -> bool:
    return bool(paths_of(url, config.sites)) or is_elsewhere(url, config.sites)


async def take_notes(session: Session, at: datetime) -> None:
    """Fill the table `noted_paths` by the notes until this instant."""
    await make_table(session, "noted_paths")
    await session.run(
        "INSERT INTO noted_paths (path) SELECT path FROM upload_removals WHERE noted_at <= ?",
        stamp(at),
    )


async def remove_noted(session: Session, config: Config, at: datetime) -> Counter[str]:
    """Remove the files that are noted; first see what wants them, where nobody has."""
    await take_notes(session, at)
    noted = await session.rows("SELECT path FROM noted_paths LIMIT ?", PORTION)
    only = [str(path) for (path,) in noted] if len(noted) < PORTION else None
    await collect(session, config.sites, at - config.grace, only)
    return await remove_unwanted(session, config, at)


async def remove_unwanted(session: Session, config: Config, at: datetime) -> Counter[str]:
    """Remove the files that are in `noted_paths` and not in `wanted_paths`, and drop their notes.

    Notes of files that are too young stay.
    """
    await session.run(
        "DELETE FROM upload_removals WHERE path IN (SELECT path FROM wanted_paths)"
        " AND path IN (SELECT path FROM noted_paths)"
    )
    await session.run("DELETE FROM noted_paths WHERE path IN (SELECT path FROM wanted_paths)")
    counts: Counter[str] = Counter()
    after = ""
    while rows := await session.rows(
        "SELECT n.path FROM noted_paths n JOIN upload_removals r ON r.path = n.path"
        " WHERE n.path > ? ORDER BY n.path LIMIT ?",
        after,
        PORTION,
    ):
        paths = [str(path) for (path,) in rows]
        fates = await asyncio.to_thread(remove_all, config.uploads, paths, at - config.grace)
        counts.update(fates.values())
        done = [(path,) for path, fate in fates.items() if fate != "young"]
        async with session.transaction():
            await session.many("DELETE FROM upload_removals WHERE path = ?", done)
        after = paths[-1]
    return counts


def remove_all(root: Path, paths: Sequence[str], before: datetime) -> dict[str, folder.Fate]:
    return {path: folder.remove(root, path, before) for path in paths}
