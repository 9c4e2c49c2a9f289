"""Settings as people see them: with their origin, and without secrets."""

from pathlib import Path
from typing import Any

from onbeat.settings import Settings, load
from onbeat.settings.answers import DEFAULT, OF_PROGRAM, VALUE_CHARS_MAX, setting_answers
from onbeat.settings.table import TABLE
from onbeat.wire.settings import SettingAnswer

KEY = "boss:admin=" + "k" * 24


def answers(settings: Settings) -> dict[str, SettingAnswer]:
    return {one.key: one for one in setting_answers(settings)}


def loaded(folder: Path, flags: dict[str, object] | None = None, **variables: str) -> Any:
    return answers(load(flags, environment=variables, folder=folder))


def test_every_setting_is_there_with_its_default() -> None:
    found = answers(Settings())
    assert [*found] == [*TABLE]
    assert {one.origin for one in found.values()} == {DEFAULT}
    assert (found["api.port"].value, found["retry.delay"].value) == ("8080", "1s")
    assert found["roles"].value.startswith("api,planner")


def test_each_tells_where_it_was_set(tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_text("planner:\n  interval: 2s\n")
    (tmp_path / ".env").write_text("ONBEAT_RETRY__DELAY=3s\n")
    found = loaded(tmp_path, {"api.port": 9}, ONBEAT_LOG__LEVEL="debug")
    assert found["planner.interval"].origin == f"{tmp_path}/onbeat.yaml, line 2"
    assert found["retry.delay"].origin == "ONBEAT_RETRY__DELAY in .env"
    assert found["log.level"].origin == "ONBEAT_LOG__LEVEL"
    assert (found["api.port"].value, found["api.port"].origin) == ("9", "--port")


def test_what_is_set_last_is_told(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"api.port": 9}, ONBEAT_API__PORT="7")
    assert (found["api.port"].value, found["api.port"].origin) == ("9", "--port")


def test_secrets_are_hidden(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        ONBEAT_API__KEYS=KEY,
        ONBEAT_STORE="postgresql://user:hunter2@db/x",
        ONBEAT_CONNECTIONS="broker=amqp://user:hunter2@broker",
        ONBEAT_SECRETS__KEYS="a:" + "QUFB" * 10 + "QUE=",
    )
    assert found["api.keys"].value == "***"
    assert found["connections"].value == "***"
    assert found["secrets.keys"].value == "***"
    assert "hunter2" not in str(found)
    assert "kkkk" not in str(found)
    assert found["store"].value.endswith("@db/x")
    assert answers(Settings())["api.keys"].value != "***"


def test_the_store_of_the_program_is_told() -> None:
    settings = Settings().with_store_of_program("sqlite:///program.db")
    one = answers(settings)["store"]
    assert (one.value, one.origin) == ("sqlite:///program.db", OF_PROGRAM)


def test_remote_tasks_are_told_by_name(tmp_path: Path) -> None:
    assert loaded(tmp_path, ONBEAT_REMOTE__TASKS="a.b,c")["remote.tasks"].value == "a.b,c"


def test_values_are_bounded(tmp_path: Path) -> None:
    names = ",".join(f"task-{number}" for number in range(1_000))
    assert (
        len(loaded(tmp_path, ONBEAT_REMOTE__TASKS=names)["remote.tasks"].value) == VALUE_CHARS_MAX
    )
