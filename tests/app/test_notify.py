"""`beat.notify`: jobs for recipients, and workers that have the channels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from onbeat import Invalid, Misconfigured, Onbeat, Options, notify
from onbeat.app.notices import read_templates
from onbeat.model.channel import Template
from onbeat.model.job import JobState
from onbeat.model.limits import TEMPLATES_MAX
from onbeat.wire.targets import NotifyAnswer
from targets.notices import a_mail_server

MAIL = {"mail": "smtp://127.0.0.1:1?from=shop@example.com"}


@pytest.fixture
def beat() -> Iterator[Onbeat]:
    with Onbeat("memory://", options=Options(channels=MAIL)) as beat:
        yield beat


def test_each_recipient_has_a_job(beat: Onbeat) -> None:
    to = ["ada@example.com", "bob@example.com", "ada@example.com"]
    jobs = beat.notify("mail", to, title="Hi", text="x", unique="w", labels={"a": "b"})
    assert [job.created for job in jobs] == [True, True]
    shown = [beat.jobs.get(job.id) for job in jobs]
    assert [one.unique for one in shown] == ["w:ada@example.com", "w:bob@example.com"]
    assert [one.labels for one in shown] == [{"a": "b"}] * 2
    assert [job.created for job in beat.notify("mail", to, text="x", unique="w")] == [False, False]


@pytest.mark.parametrize(
    ("to", "given", "field"),
    [
        (["ada@example.com", "bob"], {"text": "x"}, "to[1]"),
        ("ada@example.com", {"text": "{{ datum }}"}, "text"),
        ("ada@example.com", {"text": "{{ data.a }}"}, "text"),
        ("ada@example.com", {"text": "x", "template": "y"}, "text"),
        ("ada@example.com", {"template": "y"}, "template"),
        ("ada@example.com", {}, "text"),
        ("ada@example.com", {"text": 5}, "text"),
        ("ada@example.com", {"text": "x", "data": {"a": object()}}, "data"),
        (None, {"text": "x"}, "to"),
        ([], {"text": "x"}, "to"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_stored(
    beat: Onbeat, to: Any, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        beat.notify("mail", to, **given)
    assert caught.value.field == field
    assert beat.jobs.list() == ()


def test_an_unknown_channel_is_refused_where_channels_are_known(beat: Onbeat) -> None:
    with pytest.raises(Invalid, match="has: mail"):
        beat.notify("pager", text="x")
    with Onbeat("memory://") as sender:
        assert len(sender.notify("pager", "anyone", template="any")) == 1
    with pytest.raises(TypeError, match="unexpected keyword"):
        notify("mail", **cast("Any", {"subject": "x"}))


async def test_a_worker_runs_the_notices_of_its_channels_only() -> None:
    async with a_mail_server() as box:
        channels = {"mail": f"smtp://127.0.0.1:{box.port}?from=shop@example.com"}
        templates = {"hi": Template(title="Hi {{ data.name }}", text="{{ to }}")}
        options = Options(channels=channels, templates=templates)
        async with Onbeat("memory://", options=options) as beat:
            (job,) = await beat.anotify(
                "mail", "ada@example.com", template="hi", data={"name": "A"}
            )
            await job.aresult(timeout=20)
            other = await beat.asend(notify("pager", text="x"))
            why = await beat.jobs.awhy(other.id)
            assert (await other.ainfo()).state is JobState.WAITING
    assert why.code == "unknown_task"
    assert why.explanation == "No live worker has the channel 'pager'."
    (mail,) = box.messages
    assert (mail["Subject"], mail.get_content().strip()) == ("Hi A", "ada@example.com")


async def test_a_refused_recipient_fails_its_own_job_only_and_no_retry_repeats_the_other() -> None:
    async with a_mail_server() as box:
        box.refuses = {"bob@example.com": "550 no such mailbox"}
        channels = {"mail": f"smtp://127.0.0.1:{box.port}?from=shop@example.com"}
        async with Onbeat("memory://", options=Options(channels=channels)) as beat:
            jobs = await beat.anotify("mail", ["ada@example.com", "bob@example.com"], text="x")
            await jobs[0].aresult(timeout=20)
            with pytest.raises(Exception, match="550 no such mailbox"):
                await jobs[1].aresult(timeout=20)
            box.refuses = {}
            await beat.jobs.aretry(jobs[1].id)
            await jobs[1].aresult(timeout=20)
    assert [one.rcpt_tos for one in box.came] == [["ada@example.com"], ["bob@example.com"]]


def test_a_channel_whose_url_is_none_is_refused_without_it() -> None:
    beat = Onbeat("memory://", options=Options(channels={"mail": "smtp://u:canary@h"}))
    with pytest.raises(Misconfigured, match="mail must be a URL like smtp") as caught:
        beat.notify("mail", "a@b.c", text="x")
    assert "canary" not in str(caught.value)


async def test_a_channel_without_its_package_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onbeat.app.channels.find_spec", lambda _name: None)
    beat = Onbeat("memory://", options=Options(channels=MAIL))
    with pytest.raises(Misconfigured, match=r"mail needs the package aiosmtplib: .*notify"):
        await beat.start()


class TestTemplates:
    def test_they_are_the_files_of_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "a.title.liquid").write_text("Hi {{ data.x }}\n")
        (tmp_path / "a.text.liquid").write_text("line\n\n")
        (tmp_path / "b.c.html.liquid").write_text("<b>{{ event.type }}</b>")
        (tmp_path / "README.md").write_text("not a template {{")
        assert read_templates(str(tmp_path)) == {
            "a": Template(title="Hi {{ data.x }}", text="line\n"),
            "b.c": Template(html="<b>{{ event.type }}</b>"),
        }
        assert read_templates(None) == {}

    @pytest.mark.parametrize(
        ("name", "text", "words"),
        [
            ("a.text.liquid", "x\n {{ datum }}", "a.text.liquid, line 2, column 5: there is no"),
            ("a.text.liquid", "{% if %}", "line 1, column 4"),
            ("a.subject.liquid", "x", "must be called NAME.title.liquid"),
            ("text.liquid", "x", "must be called NAME.title.liquid"),
        ],
    )
    def test_a_file_that_cannot_work_is_told_with_its_place(
        self, tmp_path: Path, name: str, text: str, words: str
    ) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(Misconfigured, match=words):
            read_templates(str(tmp_path))

    def test_a_folder_that_is_none_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(Misconfigured, match="cannot be read"):
            read_templates(str(tmp_path / "none"))

    def test_there_may_be_so_many(self, tmp_path: Path) -> None:
        for n in range(TEMPLATES_MAX):
            (tmp_path / f"t{n}.text.liquid").write_text("x")
        assert len(read_templates(str(tmp_path))) == TEMPLATES_MAX
        (tmp_path / "more.text.liquid").write_text("x")
        with pytest.raises(Misconfigured, match="more than"):
            read_templates(str(tmp_path))


def test_a_schedule_in_python_reads_what_its_kind_has(beat: Onbeat) -> None:
    with pytest.raises(Invalid, match=r"target.notify.text.*there is no 'occurrence' here"):
        beat.schedules.put("a", None, notify("any", text="{{ occurrence }}"), on="paid")
    beat.schedules.put("a", None, notify("any", text="{{ event.id }}"), on="paid")


def test_a_notice_takes_the_options_of_calls() -> None:
    beat = Onbeat("memory://", options=Options(channels={"ops": "slack:OPS"}))
    with beat.started():
        (job,) = beat.notify(
            "ops",
            text="x",
            delay="1h",
            expires_in="2h",
            unique="w",
            unique_for="31d",
            sensitive=True,
            condition="job.labels.run == '7'",
            window="00:00-24:00 UTC",
            labels={"run": "7"},
        )
        info = job.info()
    assert (info.unique, info.unique_for, info.labels) == ("w", "31d", {"run": "7"})
    assert (info.sensitive, info.target.notify) == (True, NotifyAnswer(channel="ops", text="…"))
    assert all((info.condition, info.window, info.expires_at))
