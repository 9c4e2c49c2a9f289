"""What the environment may say, and how the environment of Onbeat follows from it."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backoffice.config import Config, ConfigError, read_config
from backoffice.environment import for_onbeat, log_destinations, role_of, with_dotenv

DB = {
    "DB_HOST": "db.internal",
    "DB_USER": "billing",
    "DB_PASS": "p@ss/word",
    "DB_NAME": "lineblocs",
}
MQ = {"QUEUE_URL": "amqp://billing:secret@mq.internal:5672/"}


def test_s1_54_the_variables_of_the_old_system_keep_their_names() -> None:
    config = read_config(
        {
            **DB,
            **MQ,
            "DISTRIBUTOR_DEBUG": "1",
            "DEPLOYMENT_DOMAIN": "example.com",
            "API_URL": "https://internals.example.com/",
            "LINEBLOCS_KEY": "token",
            "ARI_URL": "http://ari.internal:8088/ari",
            "ARI_USERNAME": "ari",
            "ARI_PASSWORD": "secret",
        }
    )
    assert config.database == "mysql://billing:p%40ss%2Fword@db.internal:3306/lineblocs"
    assert config.jobs_store == config.database
    assert (config.queue_url, config.billing_queue) == (MQ["QUEUE_URL"], "billing_tasks")
    assert (config.debug, config.domain) == (True, "example.com")
    assert (config.api_url, config.api_token) == ("https://internals.example.com", "token")
    assert (config.ari_username, config.ari_password) == ("ari", "secret")
    assert config.zone == "UTC"


@pytest.mark.parametrize(
    ("host", "in_url"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("my_db-1.internal", "my_db-1.internal"),
    ],
)
def test_a_host_may_be_a_name_or_an_address(host: str, in_url: str) -> None:
    url = read_config({**DB, "DB_HOST": host, "DB_PORT": "3307"}).database
    assert url.partition("@")[2] == f"{in_url}:3307/lineblocs"
    assert (urlsplit(url).hostname, urlsplit(url).port) == (in_url.strip("[]"), 3307)


def test_no_secret_is_shown() -> None:
    shown = repr(read_config({**DB, **MQ, "LINEBLOCS_KEY": "k1", "MAIL_API_KEY": "k2"}))
    assert [text for text in ("p%40ss", "secret", "k1", "k2") if text in shown] == []


@pytest.mark.parametrize("value", ["", "0", "true", "yes", "01"])
def test_s1_02_only_a_1_adds_the_debug_run(value: str) -> None:
    assert not read_config({**DB, "DISTRIBUTOR_DEBUG": value}).debug


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"DB_HOST": ""}, "DB_HOST is needed"),
        ({"DB_NAME": ""}, "DB_NAME is needed"),
        ({"DB_HOST": "db:3307"}, "DB_HOST is a name or an address, and DB_PORT its port"),
        ({"DB_HOST": "db/x"}, "DB_HOST is a name or an address"),
        ({"DB_HOST": "::1::"}, "DB_HOST is a name or an address"),
        ({"DB_PORT": "0"}, "DB_PORT is a whole number from 1 to 99999"),
        ({"DB_POOL_MAX": "many"}, "DB_POOL_MAX is a whole number"),
        ({"QUEUE_URL": "mq.internal"}, "QUEUE_URL is such as amqp://"),
        ({"BILLING_TIME_ZONE": "Mars/Base"}, "BILLING_TIME_ZONE is a name such as"),
        ({"BILLING_DATES": "lunar"}, "BILLING_DATES is calendar or anniversary"),
        ({"USAGE_SHARE": "half"}, "USAGE_SHARE is proportional or seed"),
        ({"API_URL": "internals"}, "API_URL is such as https://"),
        ({"DB_PASS_FILE": "/run/secrets/db"}, "DB_PASS and DB_PASS_FILE are both set"),
        ({"LINEBLOCS_KEY_FILE": "/none"}, "LINEBLOCS_KEY_FILE names a file that cannot be read"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(variables: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_config(DB | variables)


def test_s1_d42_a_secret_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from a file\n")
    config = read_config({**DB, "MAIL_API_KEY_FILE": str(path)})
    assert config.mail_key == "from a file"


@pytest.mark.parametrize(
    ("name", "queues"),
    [
        ("distributor", "distribution,mails,default"),
        ("worker-billing", "billing_tasks"),
        ("worker-recordings", "recording_tasks"),
        ("all", "distribution,mails,default,billing_tasks,recording_tasks"),
    ],
)
def test_s1_57_a_role_says_which_queues_a_process_serves(name: str, queues: str) -> None:
    role = role_of({"RUN_AS": name})
    assert role.queues == queues
    assert ("planner" in role.roles.split(",")) == (name in {"distributor", "all"})


def test_s1_57_another_role_is_refused_with_the_names() -> None:
    with pytest.raises(ConfigError, match="distributor, worker-billing, worker-recordings, all"):
        role_of({"RUN_AS": "worker"})


def environment(**variables: str) -> dict[str, str]:
    given = {**DB, **MQ, **variables}
    return for_onbeat(read_config(given), given, role_of({"RUN_AS": "worker-billing"}))


def test_what_onbeat_gets() -> None:
    found = environment()
    assert found["ONBEAT_STORE"] == "mysql://billing:p%40ss%2Fword@db.internal:3306/lineblocs"
    assert found["ONBEAT_CONNECTIONS"] == "mq=amqp://billing:secret@mq.internal:5672/"
    assert (found["ONBEAT_ROLES"], found["ONBEAT_WORKER__QUEUES"]) == (
        "dispatcher,worker",
        "billing_tasks",
    )
    assert found["ONBEAT_LOG__DESTINATIONS"] == "stdout"
    assert environment(ONBEAT_WORKER__QUEUES="mine")["ONBEAT_WORKER__QUEUES"] == "mine"


def test_a_process_needs_the_broker() -> None:
    with pytest.raises(ConfigError, match="QUEUE_URL is needed"):
        for_onbeat(Config(database="mysql://db/x"), {}, role_of({}))


def test_s1_55_log_destinations_are_those_of_onbeat() -> None:
    names = {"LOG_DESTINATIONS": "file, cloudwatch,logstash", "LOGSTASH_ADDRESS": "logs.internal"}
    assert log_destinations(names) == (
        "stdout,file:log.txt,cloudwatch:backoffice,tcp://logs.internal:8911"
    )
    assert log_destinations({"LOG_DESTINATIONS": "cloudwatch", "LOG_GROUP": "bills"}) == (
        "stdout,cloudwatch:bills"
    )
    assert log_destinations({}) == "stdout"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("syslog", "LOG_DESTINATIONS knows file, cloudwatch and logstash, not 'syslog'"),
        ("logstash", "LOGSTASH_ADDRESS is needed"),
    ],
)
def test_s1_55_another_destination_is_refused(names: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        log_destinations({"LOG_DESTINATIONS": names})


def test_s1_54_dotenv_adds_what_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("DB_NAME=one\nDB_USER=file\nDB_NAME=two\nDB_PASS=a${B}c\n")
    found = with_dotenv({"DB_USER": "set"})
    assert found == {
        "DB_NAME": "two", "DB_USER": "set", "DB_PASS": "a${B}c", "ONBEAT_DOTENV": "off"
    }  # fmt: skip
    for off in ({"USE_DOTENV": "off"}, {"ONBEAT_DOTENV": "off"}):
        assert with_dotenv(off) == {**off, "ONBEAT_DOTENV": "off"}


def test_s1_54_another_file_is_read_if_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "billing.env"
    with pytest.raises(ConfigError, match="ONBEAT_DOTENV names no file"):
        with_dotenv({"ONBEAT_DOTENV": str(path)})
    path.write_text("DB_NAME=there\n")
    assert with_dotenv({"ONBEAT_DOTENV": str(path)})["DB_NAME"] == "there"
