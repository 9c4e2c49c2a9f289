"""Imports the modules of a program by patterns, so that their tasks are registered."""

import pkgutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from importlib.util import find_spec

from onbeat.cli.app_loader import from_module, misconfigured

WILD = frozenset("*?[")


def import_included(patterns: Iterable[str]) -> list[str]:
    """Import all modules that match; a `*` also stands for names with dots.

    Returns their names. Raises `Misconfigured` for a pattern without a match, and for a module that
    cannot be imported.
    """
    names = [name for pattern in patterns for name in matching(pattern)]
    for name in names:
        from_module(name)
    return names


def matching(pattern: str) -> list[str]:
    """The modules of a pattern, without `__main__` ones, which do work when they are imported."""
    if not WILD & set(pattern):
        return [pattern]
    package = known_part(pattern)
    if not package:
        raise misconfigured(f"include {pattern}: begin with a package, as in `shop.*`")
    found = [name for name in modules_of(package) if fnmatchcase(name, pattern)]
    if not found:
        raise misconfigured(f"include {pattern}: no module of {package} matches")
    return found


def known_part(pattern: str) -> str:
    """The package before the first part with a wildcard."""
    parts: list[str] = []
    for part in pattern.split("."):
        if WILD & set(part):
            break
        parts.append(part)
    return ".".join(parts)


def modules_of(package: str) -> Iterator[str]:
    from_module(package)  # from the working directory too
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    if places is None:
        raise misconfigured(f"include: {package} is no package")
    for one in pkgutil.iter_modules(places, f"{package}."):
        if one.name.endswith(".__main__"):
            continue
        yield one.name
        if one.ispkg:
            yield from modules_of(one.name)
