"""The scripts of a schema's migrations, in the order of their numbers."""

from functools import cache
from importlib.resources import files

from onbeat.model.errors import Misconfigured


@cache
def read_migrations(package: str) -> tuple[str, ...]:
    """All scripts in order; the number in the name is the schema's version after it."""
    folder = files(package) / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)


def refuse_newer(database: str, version: int, known: int, newest: int) -> None:
    """`known` is the newest schema that is expected there, `newest` that of this program."""
    if version > known:
        raise Misconfigured(
            f"{database} has schema {version}, and this program knows up to {newest}; "
            "start the newer program that wrote it",
            key="store",
        )
