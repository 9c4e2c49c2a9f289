"""What cannot be stops the start, and the message names it."""

from pathlib import Path
from typing import Any

import pytest

from onbeat.model.errors import Misconfigured
from onbeat.settings import load
from onbeat.settings.table import TABLE


def refusal(folder: Path, **arguments: Any) -> tuple[str, str]:
    arguments.setdefault("environment", {})
    with pytest.raises(Misconfigured) as caught:
        load(arguments.pop("flags", {}), folder=folder, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    return caught.value.key, message


WRONG = [
    ("store", "mongodb://u:canary@db/x", "sqlite:///PATH or "),
    ("store", "postgresq://u:canary@db/x", "did you mean 'postgresql'"),
    ("store", "sqlit:///x.db", "did you mean 'sqlite'"),
    ("store", "onbeat.db", "sqlite:///PATH"),
    ("store", "sqlite://onbeat.db", "three slashes"),
    ("store", "sqlite:///", "path of a file"),
    ("store", "memory://x", "nothing after it"),
    ("transport", "memory://x?y=canary", "memory:// or memory://NAME and nothing after it"),
    ("transport", "MEMORY://x", "memory:// or memory://NAME and nothing after it"),
    ("transport", "nats://u:canary@h", "or kafka://HOST:PORT"),
    ("connections", "billing", "a URL like"),
    ("connections", "a/b=amqp://u:canary@h", "names of letters"),
    ("connections", "a=redis://h a=redis://:canary@h", "one URL for each name"),
    ("connections", "a=memory://", "memory://NAME and nothing after it"),
    ("connections", "a=memory://u:canary@h", "memory://NAME and nothing after it"),
    ("channels", "mail", "a URL like"),
    ("channels", "a/b=slack:CANARY", "names of letters"),
    ("channels", "a=slack:A a=slack:B", "one URL for each name"),
    ("channels", "a=ftp://u:canary@h", "a URL like smtp://"),
    ("channels", "a=slack:https://hooks.slack.com/canary", "a file or a variable"),
    ("channels", "a=smtp://u:canary@h", "`from` is missing"),
    ("channels", "a=smtp://u:canary@h?from=me", "a mail address"),
    ("channels", "a=smtp://u:canary@h?from=a@b.c&form=x", "the options are ca_file"),
    ("channels", "a=smtp://u:canary@h?from=a@b.c&starttls=maybe", "true or false"),
    ("channels", "a=smtp://u:canary@h?from=a@b.c&starttls=false", "sent in clear"),
    ("channels", "a=smtp://u:canary@h?from=a@b.c&password_env=X", "one password"),
    ("channels", "a=smtp://:canary@h?from=a@b.c", "a user for its password"),
    ("channels", "a=smtp://h:port?from=a@b.c", "a URL like smtp://"),
    ("channels", "a=webhook://u:canary@h/", "a user name or password"),
    ("channels", "a=webhook://h/?secret_env=A&secret_file=/b", "one secret"),
    ("channels", " ".join(f"a{n}=slack:A" for n in range(101)), "at most 100"),
    ("templates", " ", "a text that is not empty"),
    ("owner", "x" * 201, "a name of at most 200 characters in one line"),
    ("owner", "a\nb", "a name of at most 200 characters in one line"),
    ("release", "x" * 201, "a name of at most 200 characters in one line"),
    ("remote.tasks", "x" * 201, "at most 200"),
    ("remote.tasks", "export,@http", "such names are Onbeat's own"),
    ("remote.tasks", {"@http": None}, "such names are Onbeat's own"),
    ("remote.tasks", {"export": ["objectID"]}, "requires, key, unique_for (export)"),
    ("remote.tasks", {"export": {"require": "a"}}, "requires, key, unique_for (export)"),
    ("remote.tasks", {"export": {"key": 1}}, "texts as key"),
    ("remote.tasks", {"export": {"key": "{a"}}, "export: key: braces"),
    ("remote.tasks", {"export": {"key": "a", "unique_for": "soon"}}, "export: unique_for must be"),
    ("remote.tasks", {"export": {"unique_for": "1d"}}, "give key"),
    ("worker.queues", "mail/urgent", "must not contain /"),
    ("remote.lease", "10ms", "from 1s"),
    ("remote.fence", "atempt", "did you mean 'attempt'"),
    ("roles", "workr", "did you mean 'worker'"),
    ("roles", "", "all, or some of"),
    ("app", " ", "not empty"),
    ("api.host", "http://x:80", "without scheme"),
    ("api.host", "", "host name or address"),
    ("api.port", "eighty", "whole number from 0 to 65535"),
    ("api.port", "65536", "whole number from 0 to 65535"),
    ("api.port", "-1", "whole number from 0 to 65535"),
    ("api.port", "80.5", "whole number from 0 to 65535"),
    ("api.port", "", "whole number from 0 to 65535"),
    ("api.keys", "canary key", "without spaces"),
    ("api.keys", "ops:canary+read=canary", "use one of read, submit, work, operate, admin"),
    ("api.keys", "ops:read=canary1,ops:work=canary2", "two keys are named 'ops'"),
    ("api.keys", "ops:submit:a,b=canary", "only a key with the scope work is bound to queues"),
    ("api.keys", "ops:read=canary@2027-13-01", "2027-13-01 is not a date"),
    ("api.insecure", "maybe", "true or false"),
    ("api.hosts", "http://a.example", "without scheme and port"),
    ("api.hosts", ["a.example", "b.example:80"], "without scheme and port"),
    ("api.connections_max", "7", "whole number from 8 to 1000000, or auto"),
    ("api.disk_free_min", "100", "whole number from 0 to 99"),
    ("planner.interval", "0s", "from 0.01s to 1d"),
    ("planner.interval", "5 minutes", "a span of time"),
    ("planner.interval", "1e3", "a span of time"),
    ("planner.interval", "-5s", "a span of time"),
    ("planner.horizon", "365d", "from 0s to 31d"),
    ("worker.concurrency", "0", "whole number from 1"),
    ("worker.processes", "0", "whole number from 1 to 256"),
    ("worker.queues", "", "at least one name"),
    ("worker.prefetch", "many", "or auto"),
    ("worker.lease", "10ms", "from 1s"),
    ("worker.sidecar", "perhaps", "true or false"),
    ("worker.drain_timeout", "PT", "a span of time"),
    ("retry.attempts_max", "0", "whole number from 1 to 1000"),
    ("retry.lost_max", "101", "whole number from 1 to 100"),
    ("retry.backoff", "exponentail", "did you mean 'exponential'"),
    ("retry.delay", "2h", "longer than retry.delay_max"),
    ("retry.delay_max", "1ms", "longer than retry.delay_max"),
    ("retry.jitter", "2", "true or false"),
    ("http.timeout", "0", "from 0.01s"),
    ("http.allow_private", "sometimes", "auto, true or false"),
    ("http.allow", "10.0.0.0/33", "networks"),
    ("commands.allow", "backup", "a list of absolute paths of programs"),
    ("commands.allow", "/bin/../sbin/backup", "without `..`"),
    ("commands.allow", ",".join(f"/bin/p{n}" for n in range(101)), "at most 100 programs"),
    ("prune.after", "9" * 30, "a span of time"),
    ("prune.failed_after", "soon", "a span of time"),
    ("prune.rules", "queue=bulk", "each with after"),
    ("prune.rules", [7], "each with after"),
    ("prune.rules", "queue=bulk after=1h keep=2h", "some of queue and state"),
    ("prune.rules", "queue=bulk after=soon", "a span of time"),
    ("prune.rules", [{"queue": 7, "after": "1h"}], "a text that is not empty"),
    ("prune.rules", "queue=a/b after=1h", "must not contain"),
    ("prune.rules", "state=waiting after=1h", "rule 1: state must be"),
    ("prune.rules", "after=1h, queue=bulk after=2h", "rule 2 never counts"),
    ("prune.audit_after", "soon", "a span of time"),
    ("prune.keys_after", "0s", "must be from 0.01s"),
    ("prune.events_after", "a week", "a span of time"),
    ("log.level", "verbose", "one of debug, info, warning, error"),
    ("logs.level", "loud", "one of debug, info, warning, error"),
    ("logs.keep", "some", "true or false"),
    ("secrets.keys", "k1:short", "a list of ID:KEY"),
    ("secrets.keys", "k1", "onbeat secrets new-key"),
    ("log.levels", "shop", "names of loggers with a level each, such as onbeat.engine=debug"),
    ("log.levels", "shop=loud", "for shop one of debug, info, warning, error"),
    ("log.levels", "=debug", "names of loggers"),
    ("log.jobs", "some", "auto, true or false"),
    ("log.banner", "big", "true or false"),
    ("log.format", "jsn", "did you mean 'json'"),
    ("log.destinations", "stdotu", "a list of stdout, file:PATH"),
    ("log.destinations", "file:", "a list of stdout, file:PATH"),
    ("log.destinations", "", "a list of stdout, file:PATH"),
    ("log.destinations", "tcp://logs", "tcp://HOST:PORT"),
    ("log.destinations", "tcp://logs:5000/x", "tcp://HOST:PORT"),
    ("log.destinations", "tcp://logs:70000", "tcp://HOST:PORT"),
    ("log.destinations", "udp://logs:5000", "tcp://HOST:PORT"),
    ("log.destinations", "cloudwatch:", "cloudwatch:GROUP"),
    ("api.public_url", "pigeon://loft", "a URL like https://HOST"),
    ("api.public_url", "https://jobs.example.com/?a=1", "without a query"),
    ("api.public_url", "https://ada:word@jobs.example.com", "without a query"),
    ("watchdog.url", "pigeon://loft", "a URL like https://HOST/PATH"),
    ("watchdog.url", "https://", "a URL like https://HOST/PATH"),
    ("watchdog.url", "https://host/a b", "a URL like https://HOST/PATH"),
    ("watchdog.url", "https://host:70000/", "a URL like https://HOST/PATH"),
    ("watchdog.interval", "0.5s", "from 1s to 1d"),
    ("metrics.port", "often", "from 0 to 65535, or none"),
    ("metrics.port", "70000", "from 0 to 65535, or none"),
    ("metrics.host", "not a host", "a host name or address"),
    ("log.destinations", "cloudwatch:a group", "cloudwatch:GROUP"),
    ("otel.enabled", "perhaps", "auto, true or false"),
]


def test_every_setting_has_a_wrong_value_here() -> None:
    assert {key for key, *_ in WRONG} == set(TABLE)


@pytest.mark.parametrize(("key", "text", "right"), WRONG)
def test_an_impossible_value_in_the_environment_is_named(
    tmp_path: Path, key: str, text: list[str] | str, right: str
) -> None:
    variable = TABLE[key].environment
    named, message = refusal(tmp_path, environment={variable: text})
    assert named == key
    assert message.startswith(f"{key}: ")
    assert f"(from {variable})" in message
    assert right in message
    assert "canary" not in message


@pytest.mark.parametrize(
    ("flags", "origin"),
    [
        ({"api.port": "x"}, "(from --port)"),
        ({"planner.interval": "x"}, "(from --planner-interval)"),
    ],
)
def test_a_flag_is_named_as_it_was_typed(
    tmp_path: Path, flags: dict[str, Any], origin: str
) -> None:
    assert origin in refusal(tmp_path, flags=flags)[1]


@pytest.mark.parametrize(
    ("file", "key", "parts"),
    [
        ("api:\n  prot: 1\n", "api.prot", ["onbeat.yaml, line 2", "did you mean 'api.port'"]),
        ("api:\n  port: x\n", "api.port", ["'x'", "onbeat.yaml, line 2", "whole number"]),
        ("apii: {port: 1}\n", "apii", ["unknown setting", "did you mean"]),
        ("zzz: 1\n", "zzz", ["line 1", "the settings are store"]),
        ("api: 8080\n", "api", ["group of settings", "line 1"]),
        ("- api\n", "the file", ["group of settings"]),
        ("api:\n  port: 1\n  port: 2\n", "api.port", ["is given twice", "line 3"]),
        ("store: {url: x}\n", "store", ["a URL like"]),
        ("api: {keys: [0123]}\n", "api.keys", ["in quotes"]),
        ("api: {keys: [a: canary]}\n", "api.keys", ["***"]),
        (
            "api: {keys: [{name: a, scopes: work, queues: [], key: canary}]}\n",
            "api.keys",
            ["the queues of 'a': name at least one queue"],
        ),
        ("api: {port: yes}\n", "api.port", ["whole number"]),
        ("worker: {queues: [[a]]}\n", "worker.queues", ["list of texts"]),
        ("planner: {interval: true}\n", "planner.interval", ["span of time"]),
        ("planner: {interval: .nan}\n", "planner.interval", ["from 0.01s to 1d"]),
        ("planner: {interval: -5}\n", "planner.interval", ["from 0.01s to 1d"]),
        ("planner: {interval: .inf}\n", "planner.interval", ["from 0.01s to 1d"]),
        ("app: 7\n", "app", ["a text"]),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_line(
    tmp_path: Path, file: str, key: str, parts: list[str]
) -> None:
    (tmp_path / "onbeat.yaml").write_text(file)
    named, message = refusal(tmp_path)
    assert named == key
    assert "canary" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("file", ["api: [", "a: b: c", "\t- x", "a: \x00", "[" * 5000])
def test_a_file_that_is_not_yaml_is_named(tmp_path: Path, file: str) -> None:
    (tmp_path / "onbeat.yaml").write_text(file)
    assert "onbeat.yaml" in refusal(tmp_path)[1]


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_bytes(b"\xff\xfe\xff")
    assert "cannot be read" in refusal(tmp_path)[1]


@pytest.mark.parametrize("place", ["environment", "dotenv"])
def test_an_unknown_variable_is_named_with_the_nearest_known(tmp_path: Path, place: str) -> None:
    if place == "dotenv":
        (tmp_path / ".env").write_text("ONBEAT_API_PORT=1\n")
        key, message = refusal(tmp_path)
        assert ".env" in message
    else:
        key, message = refusal(tmp_path, environment={"ONBEAT_API_PORT": "canary"})
    assert key == "ONBEAT_API_PORT"
    assert "did you mean 'ONBEAT_API__PORT'" in message
    assert "canary" not in message


def test_a_broken_dotenv_line_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nONBEAT_STORE='open\n")
    assert ".env, line 2" in refusal(tmp_path)[1]


def test_an_unknown_flag_key_is_a_refusal(tmp_path: Path) -> None:
    assert refusal(tmp_path, flags={"api.prot": 1})[0] == "api.prot"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "onbeat.example.com"])
def test_listening_beyond_loopback_needs_a_key(tmp_path: Path, host: str) -> None:
    key, message = refusal(tmp_path, flags={"api.host": host})
    assert key == "api.host"
    assert host in message
    assert "ONBEAT_API__KEYS" in message


@pytest.mark.parametrize(
    "more",
    [
        {"api.keys": "x" * 20},
        {"api.keys": "sha256:" + "0" * 64},
        {"api.insecure": True},
        {"roles": "worker"},
    ],
)
def test_a_key_or_consent_or_no_api_lets_it_listen(tmp_path: Path, more: dict[str, Any]) -> None:
    settings = load({"api.host": "0.0.0.0", **more}, environment={}, folder=tmp_path)
    assert settings.api.host == "0.0.0.0"


@pytest.mark.parametrize("keys", ["x" * 19, "ops:read=" + "x" * 19, ["x" * 30, "x" * 19]])
def test_a_short_key_is_refused_beyond_loopback_alone(
    tmp_path: Path, keys: list[str] | str
) -> None:
    key, message = refusal(tmp_path, flags={"api.host": "0.0.0.0", "api.keys": keys})
    assert (key, "19 characters" in message, "xxx" in message) == ("api.keys", True, False)
    assert load({"api.keys": keys}, environment={}, folder=tmp_path).api.keys


def test_control_characters_of_a_value_do_not_reach_the_terminal(tmp_path: Path) -> None:
    _, message = refusal(tmp_path, environment={"ONBEAT_API__PORT": "\x1b[31m1\n2"})
    assert message.isprintable()
