"""`notifications` at a prompt."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from notifications import app
from notifications.__main__ import main
from notifications.config import Config, ConfigError, read_config
from onbeat import Onbeat
from receivers import Mails
from service import environment, eventually, running
from world import KEY, PAID, World

Run = Callable[..., Any]
TEXT = "Dear {{ data.name }}, order {{ data.event.order }}. {{ data.unsubscribe }}"
TOPIC = ("topic", "add", PAID, "--title", "Paid", "--text", TEXT)
ADA = ("recipient", "add", "ada", "Ada")
HIDDEN = "{% comment %}{{ data.unsubscribe }}{% endcomment %}Thanks."
DOUBLED = "{% capture a %}{{ a }}{{ a }}a{% endcapture %}" * 30 + "{{ data.unsubscribe }}"
VIP = "{% if data.event.vip %}{{ data.unsubscribe }}{% endif %}Thanks."


@pytest.fixture
def here(sqlite: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A database that this process has the environment of."""
    for name, value in environment(sqlite).items():
        monkeypatch.setenv(name, value)
    return sqlite


@pytest.fixture
def run(here: World, capsys: pytest.CaptureFixture[str]) -> Run:
    """The JSON that a command prints."""

    def done(*arguments: str) -> Any:
        assert here.config.database in os.environ.values()
        assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return done


def code_of(arguments: Sequence[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code


def test_commands_may_be_repeated_and_say_what_is_new(run: Run) -> None:
    for created in (True, False):
        added = run(*ADA, "--language", "de", "--zone", "Europe/Berlin", "--quiet", "22:00-07:00")
        assert added == {"recipient": "ada", "created": created}
        assert run("address", "add", "ada", "mail", "a@example.com", "--verified") == {
            "recipient": "ada",
            "channel": "mail",
            "created": created,
        }
        assert run(*TOPIC) == {"topic": PAID, "created": created}
        text = ("--title", "Bezahlt", "--text", "{{ data.unsubscribe }}")
        assert run("text", "add", PAID, "de", *text)["created"] is created
        assert run("preference", "set", "ada", PAID, "mail", "no")["allowed"] is False
    assert run("recipient", "list") == [
        {
            "id": "ada",
            "name": "Ada",
            "language": "de",
            "zone": "Europe/Berlin",
            "hours": ["07:00-22:00"],
        }
    ]
    (address,) = run("address", "list", "ada")
    assert address["verified"] is True
    (topic,) = run("topic", "list")
    assert sorted(topic["texts"]) == ["de", "en"]


def test_lists_are_read_in_pages(run: Run, here: World) -> None:
    ids = here.recipients(5)
    first = run("recipient", "list", "--limit", "3")
    then = run("recipient", "list", "--limit", "3", "--after", first[-1]["id"])
    assert [one["id"] for one in (*first, *then)] == ids
    assert [one["id"] for one in run("recipient", "list", "--limit", "1000")] == ids
    assert run("notice", "list", "none", "--limit", "1000") == []


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("recipient", "add", "a b", "Ada"), 1, "id: give 1 to 64 letters"),
        ((*ADA, "--zone", "Mars"), 1, "zone: give a name such as Europe/Berlin"),
        ((*ADA, "--window", "always"), 1, "window: give such as MON-FRI 08:00-20:00"),
        ((*ADA, "--quiet", "night"), 1, "quiet: give hours such as 22:00-07:00"),
        ((*ADA, "--language", "German"), 1, "language: give a tag such as de"),
        (("recipient", "add", "ada", " "), 1, "name: give one of at most 200"),
        (("address", "add", "eve", "mail", "e@x"), 1, "recipient: there is none called 'eve'"),
        (
            ("address", "add", "bob", "mail", "{{ now }}@x"),
            1,
            "address: give one without the marks",
        ),
        (("address", "add", "bob", "mail", "b@x\n"), 1, "address: give at most 320 printable"),
        (("preference", "set", "bob", "shop.x", "mail", "no"), 1, "topic: there is none called"),
        (("preference", "set", "bob", PAID, "mail", "maybe"), 2, "invalid choice"),
        (("topic", "add", "game.won", *TOPIC[3:]), 1, "NOTIFICATIONS_EVENTS lets in (shop.*)"),
        ((*TOPIC, "--good-for", "soon"), 1, "good_for: give a span such as 2m"),
        ((*TOPIC[:-1], "Thanks."), 1, "text: put the link to unsubscribe into it"),
        (
            (*TOPIC[:-1], "Write to data.unsubscribe."),
            1,
            "text: put the link to unsubscribe into it",
        ),
        ((*TOPIC[:-1], HIDDEN), 1, "text: put the link to unsubscribe into it"),
        ((*TOPIC[:-1], DOUBLED), 1, "text: put the link to unsubscribe into it"),
        ((*TOPIC[:-1], VIP), 1, "text: put the link to unsubscribe into it"),
        ((*TOPIC[:-1], "{{ data.unsubscribe_ }}"), 1, "text: put the link to unsubscribe into it"),
        ((*TOPIC, "--html", "<p>Thanks.</p>"), 1, "html: put the link to unsubscribe into it"),
        ((*TOPIC[:-1], "{{ data.unsubscribe }} {% if %}"), 1, "text:"),
        ((*TOPIC[:-1], "{{ data.unsubscribe }} {{ nme }}"), 1, "nme"),
        (("text", "add", "shop.x", "de", *TOPIC[3:]), 1, "topic: there is none called 'shop.x'"),
        (("publish", "shop.x"), 1, "topic: there is none called 'shop.x'"),
        (("publish", PAID, "--data", "[1]"), 1, "data: give a JSON object"),
        (("publish", PAID, "--data", "{"), 1, "data: give a JSON object"),
        (("publish", PAID, "--at", "2030-01-01T09:00"), 1, "at: give an instant with its offset"),
        (("publish", PAID, "--delay", "soon"), 1, "delay"),
        (("publish", PAID, "--if", "weekend"), 1, "condition"),
        (("schedule", "put", "k", PAID, "--cron", "often"), 1, "cron"),
        (("recipient", "list", "--limit", "0"), 1, "limit: give a whole number from 1 to 1000"),
        (("recipient", "list", "--limit", "-1"), 1, "limit: give a whole number from 1 to 1000"),
        (("recipient", "list", "--limit", "1001"), 1, "limit: give a whole number from 1 to 1000"),
        (
            ("recipient", "list", "--limit", 20 * "9"),
            1,
            "limit: give a whole number from 1 to 1000",
        ),
        (("notice", "list", "e1", "--limit", "-1"), 1, "limit: give a whole number from 1 to 1000"),
        (("notice", "list", "e1", "--limit", "many"), 2, "invalid int value"),
        (("notice", "list"), 2, "the following arguments are required"),
        (("topic", "list", "--now"), 2, "unrecognized arguments: --now"),
    ],
)
def test_what_is_refused_names_the_field_and_changes_nothing(
    here: World,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    why: str,
) -> None:
    here.topic()
    here.recipient("bob", "mail")
    before = [here.rows(f"SELECT * FROM {table}") for table in ("recipients", "topics", "texts")]
    assert code_of(arguments) == code
    assert why in capsys.readouterr().err
    after = [here.rows(f"SELECT * FROM {table}") for table in ("recipients", "topics", "texts")]
    assert after == before


@pytest.mark.usefixtures("here")
def test_what_is_refused_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "shop.x", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["field"] == "topic"


@pytest.mark.parametrize(
    "text",
    [
        "{{ data.event.price | divided_by: data.event.parts | round: 2 }} {{ data.unsubscribe }}",
        "{% for one in data.event.lines %}{{ one.name }}{% endfor %} {{data['unsubscribe']}}",
        "{{ data.event.at | date: '%H:%M' }} {{ job.id }} {{ now }} {{ data.unsubscribe | escape }}",
        "{% assign link = data.unsubscribe %}{{ link }}",
    ],
)
def test_a_text_shows_the_link_whatever_the_event(run: Run, text: str) -> None:
    html = f"<a href='{text}'>"
    assert run(*TOPIC[:-1], text, "--html", html) == {"topic": PAID, "created": True}


def test_a_topic_that_is_critical_no_more_has_the_link_in_all_its_texts(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in those that are not given with it."""
    run(*TOPIC, "--critical")
    german = ("text", "add", PAID, "de", "--title", "Bezahlt", "--text")
    run(*german, "Danke.")
    assert main(TOPIC) == 1
    assert "text: put the link to unsubscribe into that in de" in capsys.readouterr().err
    assert run("topic", "list")[0]["critical"] is True
    run(*german, "Danke. {{ data.unsubscribe }}")
    assert run(*TOPIC) == {"topic": PAID, "created": False}
    assert main([*german, "Danke."]) == 1


def test_the_first_text_of_a_topic_is_in_its_own_language(here: World) -> None:
    """A topic without a text for all others would leave them out."""
    here.topic()
    assert main(["text", "add", PAID, "fr", "--title", "t", "--text", "{{data.unsubscribe}}"]) == 0
    assert here.rows("SELECT language FROM texts ORDER BY language") == [("de",), ("en",), ("fr",)]


def test_the_triggers_of_s4_by_their_commands(run: Run, here: World, mails: Mails) -> None:
    """At once, later, at an instant, if something holds, again and again."""
    run(*TOPIC)
    here.recipient("ada", "mail")
    run("publish", PAID, "--id", "now", "--data", '{"order": 1}')
    later = run("publish", PAID, "--id", "later", "--data", '{"order": 2}', "--delay", "1s")
    again = run("publish", PAID, "--id", "later", "--data", '{"order": 2}', "--delay", "1s")
    assert (later["created"], again["created"], again["job"]) == (True, False, later["job"])
    run("publish", PAID, "--id", "past", "--data", '{"order": 3}', "--at", "2020-01-01T00:00Z")
    never = run("publish", PAID, "--id", "never", "--delay", "1s", "--if", "job.queue == 'x'")
    data = '{"order": 4}'
    put = run("schedule", "put", "each-second", PAID, "--cron", "* * * * * *", "--data", data)
    assert put["key"] == "each-second"
    with running(here, mails) as (service,):
        service.eventually(lambda: {1, 2, 3, 4} <= orders(mails), "each trigger has told Ada")
        eventually(lambda: state_of(service.url, never["job"]) == "cancelled", "it is cancelled")
        (unpublished,) = run("notice", "list", "never")
        assert unpublished["outcome"] == "cancelled"
        assert unpublished["why"] == "condition is false: job.queue == 'x'"
    assert orders(mails) == {1, 2, 3, 4}


@pytest.mark.parametrize(("sensitive", "data"), [((), {"code": "4711"}), (("--sensitive",), "…")])
def test_s4_a10_an_event_that_waits_is_shown_with_its_time_and_limit(
    run: Run, sensitive: tuple[str, ...], data: object
) -> None:
    run(*TOPIC, *sensitive)
    sent = run("publish", PAID, "--id", "later", "--at", "2099-01-01T00:00Z", *CODE)
    (waiting,) = run("notice", "list", "later")
    assert waiting == {
        "source": "/notifications",
        "event": "later",
        "topic": PAID,
        "recipient": "",
        "channel": "",
        "outcome": "waiting",
        "why": "",
        "data": data,
        "job": sent["job"],
        "state": "waiting",
        "created_at": waiting["created_at"],
        "run_at": "2099-01-01 00:00:00+00:00",
        "attempt": 0,
        "attempts_max": 5,
        "last_error": None,
    }
    assert run("notice", "list", "later", "--after", "x") == []


CODE = ("--data", '{"code": "4711"}')


@pytest.fixture
def secret(run: Run) -> str:
    """A topic of codes that are good for a minute."""
    run(*TOPIC, "--sensitive", "--good-for", "1m")
    return PAID


def test_s4_d09_what_a_command_publishes_of_a_sensitive_topic_is_not_shown(
    run: Run, here: World, secret: str
) -> None:
    run("publish", secret, "--id", "now", *CODE)
    later = run("publish", secret, "--id", "later", "--delay", "1h", *CODE)
    run("schedule", "put", "hours", secret, "--cron", "0 * * * *", *CODE)
    beat = here.program().beat
    shown = (
        beat.events.show("now"),
        beat.jobs.get(later["job"]),
        beat.schedules.get("hours"),
    )
    assert "4711" not in str(shown)
    assert all(one.sensitive for one in shown[1:])


def test_s4_d09_a_topic_that_becomes_sensitive_hides_what_its_schedules_publish(
    run: Run, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else of them is changed. There may be more of them than one page has."""
    monkeypatch.setattr(app, "PAGE", 2)
    run(*TOPIC, "--good-for", "1m")
    run("topic", "add", "shop.other", *TOPIC[3:])
    for name in ("a", "b", "c"):
        run("schedule", "put", name, PAID, "--cron", "0 * * * *", *CODE)
    run("schedule", "put", "other", "shop.other", "--cron", "0 * * * *", *CODE)
    beat = here.program().beat
    before = beat.schedules.get("b")
    for _ in range(2):
        run(*TOPIC, "--good-for", "1m", "--sensitive")
    shown = [beat.schedules.get(name) for name in ("a", "b", "c")]
    assert "4711" not in str(shown)
    assert all(one.sensitive for one in shown)
    after = shown[1]
    assert (after.cron, after.next_at, after.expires_after) == (
        before.cron,
        before.next_at,
        before.expires_after,
    )
    assert "4711" in str(beat.schedules.get("other"))


def test_s4_d04_what_a_command_publishes_expires_as_its_topic_says(
    run: Run, here: World, secret: str
) -> None:
    later = run("publish", secret, "--delay", "1h")
    run("publish", secret, "--at", "2020-01-01T00:00Z")  # long expired, and not refused
    run("schedule", "put", "hours", secret, "--cron", "0 * * * *")
    beat = here.program().beat
    job = beat.jobs.get(later["job"])
    assert job.expires_at is not None
    assert job.expires_at - job.run_at == timedelta(minutes=1)
    assert beat.schedules.get("hours").expires_after == "1m"


def orders(mails: Mails) -> set[int]:
    texts = mails.texts("ada")
    return {int(text.partition(" order ")[2].partition(".")[0]) for text in texts}


def state_of(url: str, job: str) -> str:
    with Onbeat(url) as remote:
        return remote.jobs.get(job).state


GOOD = {"NOTIFICATIONS_DATABASE": "sqlite:///x.db", "NOTIFICATIONS_LINK_KEY": KEY.decode()}


def test_the_defaults_of_the_environment() -> None:
    config = read_config(GOOD)
    assert config == Config(database="sqlite:///x.db", link_keys=(KEY,))
    assert config.jobs_store == "sqlite:///x.db"
    assert read_config({**GOOD, "ONBEAT_STORE": "memory://"}).jobs_store == "memory://"


def test_a_key_may_be_in_a_file_with_former_ones(tmp_path: Any) -> None:
    file = tmp_path / "key"
    file.write_text(f"{'n' * 32}\n{'o' * 40}\n")
    variables = {**GOOD, "NOTIFICATIONS_LINK_KEY": "", "NOTIFICATIONS_LINK_KEY_FILE": str(file)}
    assert read_config(variables).link_keys == (b"n" * 32, b"o" * 40)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("NOTIFICATIONS_DATABASE", "", "sqlite:///FILE or postgresql://"),
        ("NOTIFICATIONS_DATABASE", "mysql://root@x/y", "sqlite:///FILE or postgresql://"),
        ("NOTIFICATIONS_LINK_KEY", "", "at least 32 bytes"),
        ("NOTIFICATIONS_LINK_KEY", "n" * 31, "at least 32 bytes"),
        ("NOTIFICATIONS_LINK_KEY_FILE", "/nowhere", "cannot be read"),
        ("NOTIFICATIONS_EVENTS", "onbeat.*", "types of events"),
        ("NOTIFICATIONS_EVENTS", "shop.*.x", "types of events"),
        ("NOTIFICATIONS_PUBLIC_URL", "notices.example.com", "https://notices.example.com"),
        ("NOTIFICATIONS_ATTEMPTS_MAX", "0", "from 1 to 99"),
        ("NOTIFICATIONS_KEEP_DAYS", "ten", "from 1 to 9999"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        read_config({**GOOD, name: value})
    assert why in str(refused.value)


def test_a_wrong_variable_is_one_line_and_exit_code_2(sqlite: World) -> None:
    env = environment(sqlite, NOTIFICATIONS_EVENTS="a*b")
    command = [sys.executable, "-m", "notifications", "topic", "list"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
