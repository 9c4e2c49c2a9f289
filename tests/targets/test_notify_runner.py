"""What the runner makes of a job: texts filled in, the recipient checked, one channel asked."""

from datetime import UTC, datetime

import msgspec

from onbeat.model.channel import Channel, Template
from onbeat.model.errors import Misconfigured
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.target import NotifyTarget
from onbeat.ports.notices import Notice
from onbeat.rules.channels import read_channel
from onbeat.targets.notify.runner import NoticeRunner
from onbeat.targets.notify.templates import LiquidTemplates
from targets.notices import a_notice_run
from targets.runs import CLOCK

ADA = msgspec.Raw(b'{"name":"Ada","to":"ada@example.com","items":[1,2],"shop":"A<B"}')
RECORDS = {
    "mail": read_channel("smtp://h?from=a@b.c"),
    "ops": read_channel("slack:OPS"),
    "hook": read_channel("webhook://h/"),
}
WELCOME = Template(title="Hi {{ data.name }}", text="{{ data.nick }}", html="<b>{{ to }}</b>")


class Keeper:
    """A channel that keeps its notices."""

    def __init__(self) -> None:
        self.sent: list[Notice] = []
        self.opened: list[str] = []
        self.closed = 0
        self.is_broken = False

    def open(self, name: str, _record: Channel) -> "Keeper":
        self.opened.append(name)
        return self

    async def send(self, notice: Notice) -> Outcome:
        if self.is_broken:
            raise Misconfigured("/run/secrets/x is empty")
        self.sent.append(notice)
        return Succeeded()

    async def close(self) -> None:
        self.closed += 1


def a_runner_of(keeper: Keeper, **templates: Template) -> NoticeRunner:
    return NoticeRunner(RECORDS, templates, LiquidTemplates(), keeper.open, CLOCK)


async def sent_by(target: NotifyTarget, **job: object) -> Notice:
    keeper = Keeper()
    outcome = await a_runner_of(keeper, welcome=WELCOME).run(a_notice_run(target, job))
    assert outcome == Succeeded()
    return keeper.sent[0]


async def failure_of(target: NotifyTarget, **templates: Template) -> Failed:
    keeper = Keeper()
    outcome = await a_runner_of(keeper, **templates).run(a_notice_run(target))
    assert isinstance(outcome, Failed)
    assert keeper.sent == []
    return outcome


async def test_the_parts_of_a_notice_are_filled_in() -> None:
    notice = await sent_by(
        NotifyTarget(
            "mail",
            "{{ data.to }}",
            "Hi\r\n{{ data.name }}",
            "{{ job.labels.run }} {{ to }} {% for i in data.items %}{{ i }}{% endfor %}",
            "<i>{{ data.shop | append: '!' }}</i>",
            data=ADA,
        ),
        labels={"run": "7"},
    )
    assert (notice.to, notice.title) == ("ada@example.com", "Hi Ada")
    assert (notice.text, notice.html) == ("7 ada@example.com 12", "<i>A&lt;B!</i>")


async def test_a_notice_of_a_schedule_knows_its_occurrence() -> None:
    occurrence = datetime(2026, 3, 2, 9, tzinfo=UTC)
    notice = await sent_by(NotifyTarget("ops", text="{{ occurrence }}"), occurrence=occurrence)
    assert notice.text == "2026-03-02T09:00:00Z"


async def test_a_template_of_the_configuration_is_used_and_its_title_may_be_another() -> None:
    data = msgspec.Raw(b'{"name":"Ada","nick":"A"}')
    named = NotifyTarget("mail", "a@b.c", template="welcome", data=data)
    notice = await sent_by(named)
    assert (notice.title, notice.text, notice.html) == ("Hi Ada", "A", "<b>a@b.c</b>")
    titled = msgspec.structs.replace(named, title="Own")
    assert (await sent_by(titled)).title == "Own"


async def test_a_name_without_a_value_fails_the_attempt_and_is_named() -> None:
    wrong = await failure_of(NotifyTarget("ops", text="{{ event.data.code }}"))
    assert "text, line 1, column 4" in wrong.error
    assert "event" in wrong.error
    assert not wrong.retryable


async def test_a_template_of_the_configuration_may_be_another_at_the_next_attempt() -> None:
    target = NotifyTarget("mail", "a@b.c", template="welcome", data=ADA)
    wrong = await failure_of(target, welcome=WELCOME)
    assert "data.nick is undefined" in wrong.error
    assert wrong.retryable
    missing = await failure_of(target)
    assert missing == Failed("this worker has no template named 'welcome'")


async def test_a_recipient_that_is_none_once_filled_in_is_final() -> None:
    wrong = await failure_of(NotifyTarget("mail", "{{ data.name }}", text="x", data=ADA))
    assert "must be a mail address" in wrong.error
    assert not wrong.retryable
    evil = msgspec.Raw(b'{"to":"a@b.c\\r\\nRCPT TO:<eve@example.com>"}')
    wrong = await failure_of(NotifyTarget("mail", "{{ data.to }}", text="x", data=evil))
    assert "control characters" in wrong.error
    none = await failure_of(NotifyTarget("mail", "{% if data.x %}x{% endif %}", text="x", data=ADA))
    assert "a mail needs an address" in none.error


async def test_a_channel_of_another_worker_is_told() -> None:
    assert await failure_of(NotifyTarget("pager", text="x")) == Failed(
        "this worker has no channel named 'pager'"
    )


async def test_a_channel_is_opened_once_and_closed_with_the_runner() -> None:
    keeper = Keeper()
    runner = a_runner_of(keeper)
    for _ in range(3):
        await runner.run(a_notice_run(NotifyTarget("ops", text="x")))
    await runner.run(a_notice_run(NotifyTarget("hook", text="x")))
    await runner.close()
    assert (keeper.opened, keeper.closed) == (["ops", "hook"], 2)


async def test_a_secret_that_cannot_be_read_is_worth_another_attempt() -> None:
    keeper = Keeper()
    keeper.is_broken = True
    outcome = await a_runner_of(keeper).run(a_notice_run(NotifyTarget("ops", text="x")))
    assert outcome == Failed("channel 'ops': /run/secrets/x is empty")
