"""The file with the map of cells."""

from pathlib import Path

import pytest

from onbeat.app.stores import check_front, open_store
from onbeat.model.cells import Cell, CellMap
from onbeat.model.errors import Misconfigured
from onbeat.model.role import Role
from onbeat.settings import load
from onbeat.settings.cells import map_at, passwords_at

GOOD = """
version = 3
[cells.a]
url = "postgresql://onbeat@pg1/onbeat"
slots = "0-255, 1023"
[cells.b]
url_from = "CELL_B"
slots = "256-1022"
"""
SECRET = "postgresql://onbeat:geheim@pg2/onbeat"


def written(folder: Path, text: str) -> str:
    path = folder / "cells.toml"
    path.write_text(text)
    return f"cells:///{path}"


def test_a_map_is_read(tmp_path: Path) -> None:
    map = map_at(written(tmp_path, GOOD), {"CELL_B": SECRET})
    first = Cell("a", "postgresql://onbeat@pg1/onbeat", ((0, 255), (1023, 1023)))
    assert map == CellMap(3, (first, Cell("b", SECRET, ((256, 1022),))))


def one(line: str = 'url = "sqlite:///x.db"', slots: str = 'slots = "0-1023"') -> str:
    return f"version = 1\n[cells.a]\n{line}\n{slots}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version = ", "is not TOML: Invalid value"),
        ("version = 1", "required field `cells`"),
        ("[cells]", "required field `version`"),
        (one().replace("version = 1", "version = '1'"), r"Expected `int`.*\$\.version"),
        (one().replace("version = 1", "version = 0"), "version must be from 1 to"),
        ("version = 1\n[cells]", "cells must name 1 to 64"),
        ("versoin = 2\n" + one(), "unknown field `versoin`"),
        (one() + "weight = 3", r"unknown field `weight`.*\$\.cells"),
        (one().replace("cells.a", "cells.A"), "cells.A: a name has up to 63 small letters"),
        (one().replace("cells.a", "cells.1"), "cells.1: a name has"),
        (one() + "[cells.a]", "is not TOML"),
        (one(slots='slots = "0..9"'), "cells.a.slots: '0..9' is no range; write 0-511"),
        (one(slots='slots = ""'), "cells.a.slots: '' is no range"),
        (one(slots='slots = "0-1022"'), "1 slots are in no cell, the first is 1023"),
        (one(slots='slots = "0-1024"'), "between 0 and 1023"),
        (one(slots='slots = "0-1023, 5"'), "cells.a.slots names slot 5 twice"),
        (one(line=""), "cells.a: name either url, or url_from"),
        (one(line='url = "sqlite:///x.db"\nurl_from = "X"'), "cells.a: name either url"),
        (one(line='url_from = "NOT_SET"'), "cells.a.url_from: the variable NOT_SET is not set"),
        (one(line='url = "memory://"'), "cells.a.url: 'memory://' must be a URL like postgresql"),
        (one(line='url = "cells:///x.toml"'), "cells.a.url: .* must be a URL like postgresql"),
        (one(line='url = "https://u:geheim@h/"'), "cells.a.url: .* must be a URL like postgresql"),
    ],
)
def test_a_bad_map_is_refused_with_its_field(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason) as raised:
        map_at(written(tmp_path, text), {})
    assert str(tmp_path / "cells.toml") in str(raised.value)
    assert "geheim" not in str(raised.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"cells\.toml cannot be read"):
        open_store(f"cells:///{tmp_path}/cells.toml")


def test_passwords_of_cells_are_secrets_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELL_B", SECRET)
    url = written(tmp_path, GOOD)
    assert passwords_at(url) == ["geheim"]
    settings = load({"store": url}, environment={}, folder=tmp_path)
    assert "geheim" in settings.secret_values
    assert passwords_at(written(tmp_path, "version = 9")) == []


@pytest.mark.parametrize("url", ["cells://", "cells:///", "cells://x.toml"])
def test_a_map_is_named_by_a_path(tmp_path: Path, url: str) -> None:
    with pytest.raises(Misconfigured, match="cells:///PATH"):
        load({"store": url}, environment={}, folder=tmp_path)


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.API])
def test_only_the_api_runs_over_cells(role: Role) -> None:
    with pytest.raises(Misconfigured, match="run the other roles in a service of each cell"):
        check_front("cells:///x.toml", [Role.API, role])
    check_front("cells:///x.toml", [Role.API])
    check_front("sqlite:///x.db", list(Role))
