"""Defaults < onbeat.yaml < .env < environment < flags."""

from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat import remote_task
from onbeat.model.errors import Misconfigured
from onbeat.model.job import JobState
from onbeat.model.keep_rule import KeepRule
from onbeat.settings import Role, Settings, load
from onbeat.settings.load import export_dotenv
from onbeat.settings.setting import default_text

LAYERS = ("file", "dotenv", "environment", "flags")


def load_in(
    folder: Path,
    *,
    file: str = "",
    dotenv: str = "",
    environment: dict[str, Any] | None = None,
    flags: dict[str, Any] | None = None,
) -> Settings:
    if file:
        (folder / "onbeat.yaml").write_text(file)
    if dotenv:
        (folder / ".env").write_text(dotenv)
    return load(flags or {}, environment=environment or {}, folder=folder)


def load_layers(folder: Path, layers: tuple[str]) -> Settings:
    return load_in(
        folder,
        file="api:\n  port: 1001\n" if "file" in layers else "",
        dotenv="ONBEAT_API__PORT=1002\n" if "dotenv" in layers else "",
        environment={"ONBEAT_API__PORT": "1003"} if "environment" in layers else {},
        flags={"api.port": 1004} if "flags" in layers else {"api.port": None},
    )


@pytest.mark.parametrize(
    "layers", [chosen for size in range(1, 5) for chosen in combinations(LAYERS, size)]
)
def test_the_strongest_layer_wins(tmp_path: Path, layers: tuple[Any, ...]) -> None:
    strongest = max(LAYERS.index(layer) for layer in layers)
    assert load_layers(tmp_path, layers).api.port == 1001 + strongest


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert load({}, environment={}, folder=tmp_path) == Settings()


def test_layers_are_joined_key_by_key(tmp_path: Path) -> None:
    settings = load_in(
        tmp_path,
        file="worker:\n  concurrency: 7\n  lease: 20\nlog: {level: debug}\n",
        environment={"ONBEAT_WORKER__LEASE": "1m30s"},
        flags={"worker.queues": "mail, files"},
    )
    assert settings.worker.concurrency == 7
    assert settings.worker.lease == timedelta(seconds=90)
    assert settings.worker.queues == ("mail", "files")
    assert settings.log.level == "debug"


def test_a_named_file_replaces_the_default_one(tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_text("api: {port: 1}")
    other = tmp_path / "other.yaml"
    other.write_text("worker: {concurrency: 3}")
    settings = load({}, config=other, environment={}, folder=tmp_path)
    assert (settings.api.port, settings.worker.concurrency) == (8080, 3)


def test_the_file_may_be_named_by_the_environment_or_dotenv(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("api: {port: 1}")
    (tmp_path / "b.yaml").write_text("api: {port: 2}")
    (tmp_path / ".env").write_text(f"ONBEAT_CONFIG={tmp_path / 'a.yaml'}\n")
    assert load({}, environment={}, folder=tmp_path).api.port == 1
    named = {"ONBEAT_CONFIG": str(tmp_path / "b.yaml")}
    assert load({}, environment=named, folder=tmp_path).api.port == 2


@pytest.mark.parametrize("off", ["off", "OFF"])
def test_dotenv_may_be_ignored_or_named(tmp_path: Path, off: str) -> None:
    (tmp_path / ".env").write_text("ONBEAT_API__PORT=1\n")
    (tmp_path / "prod.env").write_text("ONBEAT_API__PORT=2\n")
    for named, port in ((off, 8080), ("", 1), ("prod.env", 2), (str(tmp_path / "prod.env"), 2)):
        environment = {"ONBEAT_DOTENV": named}
        assert load({}, environment=environment, folder=tmp_path).api.port == port
    with pytest.raises(Misconfigured, match=r"ONBEAT_DOTENV: the file nowhere\.env does not exist"):
        load({}, environment={"ONBEAT_DOTENV": "nowhere.env"}, folder=tmp_path)


def test_other_variables_of_dotenv_are_set_for_the_program(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DB_HOST=db\nDB_NAME=shop\nONBEAT_API__PORT=1\n")
    environment = {"DB_HOST": "stays"}
    export_dotenv(environment, tmp_path)
    assert environment == {"DB_HOST": "stays", "DB_NAME": "shop"}
    ignored = {"ONBEAT_DOTENV": "off"}
    export_dotenv(ignored, tmp_path)
    assert ignored == {"ONBEAT_DOTENV": "off"}


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_a_missing_file_that_was_named_stops_the_start(tmp_path: Path, by: str) -> None:
    missing = tmp_path / "nowhere.yaml"
    named = {"config": missing} if by == "flag" else {}
    environment = {"ONBEAT_CONFIG": str(missing)} if by == "environment" else {}
    with pytest.raises(Misconfigured, match=r"nowhere\.yaml does not exist"):
        load({}, environment=environment, folder=tmp_path, **named)


@pytest.mark.parametrize("file", ["", "# nothing\n", "api:\n", "api:\n  port:\n", "---\n"])
def test_a_file_that_says_nothing_changes_nothing(tmp_path: Path, file: str) -> None:
    (tmp_path / "onbeat.yaml").write_text(file)
    assert load({}, environment={}, folder=tmp_path) == Settings()


def test_variables_of_others_are_let_be(tmp_path: Path) -> None:
    settings = load_in(
        tmp_path,
        dotenv="DATABASE_URL=x\nexport ONBEAT_API__PORT='9' # nine\n",
        environment={"HOME": "/", "ONBEAT_SERVER": "http://x", "ONBEAT_API_KEY": "k"},
    )
    origins = {"api.port": "ONBEAT_API__PORT in .env"}
    assert settings == Settings(api=Settings().api.__class__(port=9), origins=origins)


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("STORE", "sqlite:////var/lib/onbeat.db", "store", "sqlite:////var/lib/onbeat.db"),
        ("STORE", "memory://", "store", "memory://"),
        ("ROLES", "worker,API", "roles", (Role.API, Role.WORKER)),
        ("ROLES", "all", "roles", tuple(Role)),
        ("API__HOST", "[::1]", "api.host", "::1"),
        ("API__KEYS", "a1, b2", "api.keys", ("a1", "b2")),
        ("API__INSECURE", "yes", "api.insecure", True),
        ("PLANNER__INTERVAL", "PT1M30S", "planner.interval", timedelta(seconds=90)),
        ("PLANNER__HORIZON", "0", "planner.horizon", timedelta()),
        ("PLANNER__HORIZON", "1h30m", "planner.horizon", timedelta(minutes=90)),
        ("PRUNE__AFTER", "P1W", "prune.after", timedelta(days=7)),
        ("WORKER__QUEUES", "all", "worker.queues", None),
        ("WORKER__PREFETCH", "auto", "worker.prefetch", None),
        ("WORKER__PREFETCH", "500", "worker.prefetch", 500),
        ("RETRY__BACKOFF", "Linear", "retry.backoff", "linear"),
        ("RETRY__JITTER", "off", "retry.jitter", False),
        ("HTTP__ALLOW_PRIVATE", "auto", "http.allow_private", None),
        ("HTTP__ALLOW_PRIVATE", "true", "http.allow_private", True),
        ("HTTP__ALLOW", "10.0.0.0/8,hooks.example.com,::1", "http.allow",
         ("10.0.0.0/8", "hooks.example.com", "::1")),
        ("LOG__FORMAT", "json", "log.format", "json"),
        ("LOG__LEVELS", "shop=debug, onbeat.engine=Warning", "log.levels",
         {"shop": "debug", "onbeat.engine": "warning"}),
        ("LOG__JOBS", "off", "log.jobs", False),
        ("LOG__JOBS", "auto", "log.jobs", None),
        ("LOG__BANNER", "no", "log.banner", False),
        ("LOG__DESTINATIONS", "stdout,file:/tmp/x.log", "log.destinations",
         ("stdout", "file:/tmp/x.log")),
        ("LOG__DESTINATIONS", "tcp://[::1]:5000,cloudwatch:/shop/onbeat", "log.destinations",
         ("tcp://[::1]:5000", "cloudwatch:/shop/onbeat")),
        ("APP", "demo.py", "app", "demo.py"),
    ],
)  # fmt: skip
def test_each_kind_of_value_is_read_from_text(
    tmp_path: Path, variable: str, text: str, path: str, value: Any
) -> None:
    settings = load({}, environment={f"ONBEAT_{variable}": text}, folder=tmp_path)
    result = settings
    for name in path.split("."):
        result = getattr(result, name)
    assert result == value


@pytest.mark.parametrize(
    ("host", "allow", "expected"),
    [
        ("127.0.0.1", "auto", True),
        ("localhost", "auto", True),
        ("127.9.9.9", "auto", True),
        ("::1", "auto", True),
        ("0.0.0.0", "auto", False),
        ("::", "auto", False),
        ("onbeat.example.com", "auto", False),
        ("0.0.0.0", "true", True),
        ("127.0.0.1", "false", False),
    ],
)
def test_private_callbacks_follow_the_host_unless_set(
    tmp_path: Path, host: str, allow: str, expected: bool
) -> None:
    flags = {"api.host": host, "http.allow_private": allow, "api.insecure": True}
    assert load(flags, environment={}, folder=tmp_path).allows_private is expected


def test_remote_tasks_are_names_or_declarations(tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_text(
        "remote: {tasks: {resize: , export: {requires: [id], key: 'e:{id}', unique_for: always}}}"
    )
    export = remote_task("export", requires=("id",), key="e:{id}", unique_for="always")
    resize = remote_task("resize")
    assert load({}, environment={}, folder=tmp_path).remote.tasks == (resize, export)
    named = load({"remote.tasks": ["resize", "resize"]}, environment={}, folder=tmp_path)
    assert named.remote.tasks == (resize,)


def test_rules_of_keeping_are_mappings_or_texts(tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_text(
        "prune: {rules: [{queue: my bulk, state: succeeded, after: 1h}, {state: failed, after: 90d}]}"
    )
    failed = KeepRule(state=JobState.FAILED, after=timedelta(days=90))
    bulk = KeepRule(queue="my bulk", state=JobState.SUCCEEDED, after=timedelta(hours=1))
    assert load({}, environment={}, folder=tmp_path).prune.rules == (bulk, failed)
    text = "queue=bulk state=Succeeded after=1h, state=failed after=90d"
    environment = {"ONBEAT_PRUNE__RULES": text}
    named = load({}, environment=environment, folder=tmp_path).prune.rules
    assert named == (replace(bulk, queue="bulk"), failed)
    assert default_text(named, "") == "queue=bulk state=succeeded after=1h,state=failed after=90d"


def test_the_retry_settings_are_a_policy() -> None:
    policy = Settings().retry.policy
    assert (policy.attempts_max, policy.delay_max) == (3, timedelta(hours=1))


def test_keys_are_not_in_what_the_settings_print(tmp_path: Path) -> None:
    settings = load({}, environment={"ONBEAT_API__KEYS": "canary-key"}, folder=tmp_path)
    assert "canary" not in repr(settings)
    assert settings.secret_values == ("canary-key",)


def test_the_older_name_of_a_role_is_taken(tmp_path: Path) -> None:
    settings = load({"roles": "planner,supervisor"}, environment={}, folder=tmp_path)
    assert settings.roles == (Role.PLANNER, Role.MAINTENANCE)
