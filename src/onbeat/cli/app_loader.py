"""Loads the Onbeat of a program from a file or a module."""

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from onbeat.app.client import IS_IMPORTING, Onbeat
from onbeat.model.errors import Misconfigured
from onbeat.model.limits import NAME_CHARS_MAX

FORM: Final = "FILE.py or MODULE:NAME"


def load_app(place: str) -> Onbeat:
    """The Onbeat at `FILE.py`, `FILE.py:NAME`, `MODULE` or `MODULE:NAME`.

    Raises `Misconfigured` when there is none, or several without a name. The program's own folder,
    or the working directory for a module, comes first on the import path.
    """
    source, name = split(place)
    module = from_file(Path(source)) if source.endswith(".py") else from_module(source)
    return find_named(module, name, place) if name else find_only(module, place)


def derived_owner(place: str) -> str | None:
    """The machine and the file of the program, which no other program shares.

    None where there is no file, or its name is too long.
    """
    source, name = split(place)
    file = source if source.endswith(".py") else getattr(sys.modules[source], "__file__", None)
    if file is None:
        return None
    result = ":".join(filter(None, (socket.gethostname(), str(Path(file).resolve()), name)))
    return result if len(result) <= NAME_CHARS_MAX else None


def split(place: str) -> tuple[str, str]:
    source, _, name = place.rpartition(":")
    # `C:` is a drive letter, not a module.
    return (source, name) if len(source) > 1 else (place, "")


def from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise misconfigured(f"{path} does not exist")
    put_first(path.resolve().parent)
    loaded = sys.modules.get(path.stem)
    if loaded and is_from(loaded, path):
        return loaded
    if loaded:
        raise misconfigured(f"{path} has the name of a module that is already loaded; rename it")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise misconfigured(f"{path} is not a Python file")
    module = module_from_spec(spec)
    # Registered under its own name, so that other modules can import it.
    sys.modules[path.stem] = module
    try:
        with importing():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[path.stem]
        raise import_error(str(path), error) from error
    return module


def is_from(module: ModuleType, path: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "").resolve() == path.resolve()


def from_module(name: str) -> ModuleType:
    if "/" in name and Path(name).is_dir():
        raise misconfigured(f"{name} is a folder; give {FORM}")
    put_first(Path.cwd())
    try:
        with importing():
            return import_module(name)
    except (Exception, SystemExit) as error:
        raise import_error(name, error) from error


@contextmanager
def importing() -> Generator[None]:
    """A program that a command imports, to run it itself, must not start on its own."""
    token = IS_IMPORTING.set(True)
    try:
        yield
    finally:
        IS_IMPORTING.reset(token)


def put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def find_named(module: ModuleType, name: str, place: str) -> Onbeat:
    result: object = module
    for part in name.split("."):
        result = getattr(result, part, None)
    if not isinstance(result, Onbeat):
        known = sorted(onbeats(module))
        hint = f"; it has {', '.join(known)}" if known else ""
        raise misconfigured(f"{place}: {name} is not an Onbeat{hint}")
    return result


def find_only(module: ModuleType, place: str) -> Onbeat:
    result = onbeats(module)
    if not result:
        raise misconfigured(f"{place} has no Onbeat; write `beat = Onbeat()` at its top level")
    if len({id(beat) for beat in result.values()}) > 1:
        names = " or ".join(f"{place}:{name}" for name in sorted(result))
        raise misconfigured(f"{place} has several; choose one: {names}")
    return next(iter(result.values()))


def onbeats(module: ModuleType) -> dict[str, Onbeat]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Onbeat)}


def misconfigured(reason: str) -> Misconfigured:
    return Misconfigured(f"app: {reason}", key="app")


def import_error(place: str, error: BaseException) -> Misconfigured:
    """One line for a failed import: the error, and its place in the program."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return misconfigured(f"{place} cannot be imported: {what}{last_program_line(place, error)}")


def last_program_line(place: str, error: BaseException) -> str:
    """The last line of the program itself in the error's traceback."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(Path(place).name):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""
