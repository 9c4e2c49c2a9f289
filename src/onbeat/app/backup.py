"""Backups of stores that are a file."""

from pathlib import Path

from onbeat.app.stores import SQLITE
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.sqlite.backup import OnProgress, back_up

__all__ = ["OnProgress", "back_up_store"]


def back_up_store(url: str, target: Path, on_progress: OnProgress, *, replace: bool) -> int:
    """Copy the file of the store while it is in use; returns the bytes of the copy.

    Raises `Misconfigured` for a store on a server, whose own tools make backups.
    """
    if not url.startswith(SQLITE):
        raise Misconfigured(
            "store: this backs up a SQLite file; a database server has its own tools, such as"
            " pg_dump and mariadb-dump, and `onbeat copy` copies any store into another",
            "store",
        )
    source = url.removeprefix(SQLITE)
    if not Path(source).exists():
        raise Unavailable(f"there is no file {source}")
    return back_up(source, target, on_progress, replace=replace)
