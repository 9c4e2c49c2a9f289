"""Which store a program has under `onbeat up`: its own, unless the configuration names one."""

from pathlib import Path
from typing import Any

import pytest

from interfaces.up import up
from onbeat import Misconfigured, Onbeat
from onbeat.service import Service, serve
from onbeat.settings import load

OWN = "sqlite:///own.db"
DEFAULT = "sqlite:///onbeat.db"
OTHER = "sqlite:///other.db"

PROGRAM = f"""\
from onbeat import Onbeat

beat = Onbeat("{OWN}")
"""


def store_url(folder: Path, flags: Any = None, environment: Any = None) -> str:
    """The store that the service of a program with its own store has."""
    settings = load(flags, environment=environment or {}, folder=folder)
    service = Service(settings, Onbeat(OWN))
    assert service.settings.store == service.backend.url
    return service.backend.url


def test_without_another_name_it_is_that_of_the_program(tmp_path: Path) -> None:
    assert store_url(tmp_path) == OWN
    assert store_url(tmp_path, {"api.port": "9000"}) == OWN


@pytest.mark.parametrize("named", [OTHER, DEFAULT, OWN])
def test_a_flag_overrides_it_with_the_default_store_too(tmp_path: Path, named: str) -> None:
    assert store_url(tmp_path, {"store": named}) == named


@pytest.mark.parametrize("named", [OTHER, DEFAULT])
def test_so_do_the_environment_and_the_files(tmp_path: Path, named: str) -> None:
    assert store_url(tmp_path, environment={"ONBEAT_STORE": named}) == named
    (tmp_path / "onbeat.yaml").write_text(f"store: {named}\n")
    assert store_url(tmp_path) == named
    (tmp_path / ".env").write_text(f"ONBEAT_STORE={OTHER}\n")
    assert store_url(tmp_path) == OTHER


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"roles": "api"}, "roles: store memory:// is seen by this process only"),
        ({"transport": "amqp://127.0.0.1"}, "transport: store memory:// is seen by this process"),
        ({"worker.processes": "2"}, "worker.processes: memory:// lives in one process"),
    ],
)
async def test_what_needs_a_shared_store_is_refused_by_the_store_of_the_program(
    tmp_path: Path, flags: dict[str, object], reason: str
) -> None:
    settings = load(flags, environment={}, folder=tmp_path)
    with pytest.raises(Misconfigured, match=reason):
        await serve(settings, Onbeat("memory://"))


@pytest.mark.parametrize("place", ["app.py", "app:beat"])
def test_the_command_runs_a_program_on_its_own_store(tmp_path: Path, place: str) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with up(tmp_path, place) as service:
        assert service.events("ready")[0]["store"].endswith("/own.db")
    assert (tmp_path / "own.db").exists()
    assert not (tmp_path / "onbeat.db").exists()


def test_the_command_takes_the_default_store_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with up(tmp_path, "app.py", ONBEAT_STORE=DEFAULT) as service:
        assert service.events("ready")[0]["store"].endswith("/onbeat.db")
    assert not (tmp_path / "own.db").exists()
