"""`onbeat notify`: what it sends, what it prints, and with which code it ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from docs.receivers import http_server, mail_server
from onbeat.cli.main import root


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs `onbeat …` in a folder with channels to a mail server and a room of our own."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONBEAT_SERVER", "ONBEAT_API_KEY", "ONBEAT_STORE", "ONBEAT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: str, code: int = 0) -> Any:
        result = CliRunner().invoke(root, ["notify", *args])
        assert result.exit_code == code, result.output
        return result

    with mail_server() as (mails, mail_port), http_server() as (rooms, http_port):
        (tmp_path / "url").write_text(f"http://127.0.0.1:{http_port}/secret/path")
        monkeypatch.setenv(
            "ONBEAT_CHANNELS",
            f"mail=smtp://127.0.0.1:{mail_port}?from=a@b.c ops=slack://{tmp_path}/url"
            f" away=smtp://127.0.0.1:1?from=a@b.c gone=slack:NO_SUCH_VARIABLE",
        )
        runs: Any = run
        runs.mails, runs.rooms = mails, rooms
        yield runs


def jobs() -> list[dict[str, Any]]:
    listed = CliRunner().invoke(root, ["job", "list", "--json"])
    return json.loads(listed.output)["jobs"]


def test_a_notice_becomes_a_job_for_each_recipient(onbeat: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Dear {{ data.name }}")
    printed = onbeat(
        "--channel", "mail", "--to", "ada@example.com", "--to", "bob@example.com",
        "--title", "T", "--text", "@text", "--html", "<b>x</b>", "--data", '{"name": "you"}',
        "--unique", "w", "--unique-for", "31d", "--queue", "mails", "--label", "a=b",
        "--delay", "1h", "--expires-at", "2999-01-01T00:00:00Z", "--retry-attempts-max", "7",
    ).output  # fmt: skip
    made = sorted(jobs(), key=lambda job: job["id"])
    assert printed.split() == [job["id"] for job in made]
    for job, to in zip(made, ("ada@example.com", "bob@example.com"), strict=True):
        assert job["target"]["notify"] == {
            "channel": "mail", "to": to, "title": "T", "text": "Dear {{ data.name }}",
            "html": "<b>x</b>", "data": {"name": "you"},
        }  # fmt: skip
        assert (job["unique"], job["queue"], job["attempts_max"]) == (f"w:{to}", "mails", 7)
    assert "ada@example" in CliRunner().invoke(root, ["job", "list"]).output


def test_a_notice_takes_the_options_of_jobs(onbeat: Any) -> None:
    onbeat(
        "--channel", "ops", "--text", "x", "--window", "MON-FRI 09:00-18:00 Europe/Berlin",
        "--sensitive", "--condition", "job.queue == 'default'", "--run-at", "2998-01-01T10:00:00Z",
        "--expires-at", "2999-01-01T00:00:00Z",
    )  # fmt: skip
    (job,) = jobs()
    assert job["window"][0]["days"] == "MON-FRI"
    assert (job["sensitive"], job["target"]["notify"]["text"]) == (True, "…")
    assert job["condition"]["if"] == "job.queue == 'default'"
    assert job["run_at"].startswith("2998-01-01")


def test_the_answer_may_be_json(onbeat: Any) -> None:
    answer = json.loads(onbeat("--channel", "ops", "--text", "x", "--json").output)
    assert [job["id"] for job in jobs()] == answer["ids"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--channel", "pager", "--text", "x"], 1, "no channel is named 'pager'"),
        (["--channel", "ops", "--text", "{{ datum }}"], 1, "line 1, column 4"),
        (["--channel", "mail", "--text", "x", "--to", "bob"], 1, "to[0] must be a mail address"),
        (["--text", "x"], 2, "a notice needs a channel"),
        (["--channel", "ops", "--text", "x", "--data", "[1]"], 2, "--data must be JSON"),
        (["--channel", "ops", "--text", "@none"], 2, "none cannot be read"),
    ],
)
def test_a_refusal_has_its_code(onbeat: Any, args: list[str], code: int, words: str) -> None:
    assert words in onbeat(*args, code=code).output
    assert jobs() == []


def test_a_channel_is_tried_at_once_and_without_a_job(onbeat: Any) -> None:
    assert onbeat("--test", "ops").output.strip() == "sent"
    assert onbeat("--test", "mail", "--to", "me@example.com", "--text", "x").output == "sent\n"
    assert json.loads(onbeat("--test", "ops", "--json").output) == {"sent": True, "error": None}
    assert len(onbeat.rooms) == 2
    assert onbeat.mails.came == [("me@example.com", ": x")]
    assert jobs() == []


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--test", "away", "--to", "a@b.c"], 1, "channel 'away': no connection could be made"),
        (["--test", "gone"], 1, "channel 'gone': the variable NO_SUCH_VARIABLE is not set"),
        (["--test", "none"], 1, "no channel is named 'none'"),
        (["--test", "mail"], 1, "a mail needs an address"),
        (["--test", "ops", "--text", "{{ data.x }}"], 1, "data.x is undefined"),
        (["--test", "ops", "--channel", "ops"], 2, "--test names the channel"),
        (["--test", "mail", "--to", "a@b.c", "--to", "b@b.c"], 2, "one recipient at most"),
        (["--test", "ops", "--server", "http://h"], 2, "leave --server out"),
        (["--test", "ops", "--delay", "1h"], 2, "--delay does not go with --test"),
    ],
)
def test_a_channel_that_fails_is_told(onbeat: Any, args: list[str], code: int, words: str) -> None:
    assert words in onbeat(*args, code=code).output
    assert (onbeat.mails.came, onbeat.rooms) == ([], [])
