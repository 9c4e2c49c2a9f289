"""Who gets a notice, over which channels, in which language, and when."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications import notices, people, topics
from notifications.app import PLAN
from notifications.links import Wish
from notifications.people import Address, Recipient
from notifications.planning import Cause, Notice, Skipped, plan
from notifications.topics import Text, Topic
from receivers import Mails
from world import PAID, World

AT = datetime(2026, 11, 23, 9, tzinfo=UTC)
MAIL = "@notify:mail"


def told(world: World, mails: Mails, at: str = "2026-11-23T09:00Z", until: str = "3d") -> list[str]:
    """When which recipient got a notice of one event, in UTC."""
    program = world.program(mails.port)
    with program.beat.testing(at=at) as trial:
        program.beat.events.publish(PAID, {"order": 7}, id="e1")
        trial.advance(until)
        return sorted(
            f"{ran.at:%d %H:%M} {ran.job.labels['recipient']}"
            for ran in trial.ran_of(MAIL)
            if ran.job.state == "succeeded"
        )


def test_preferences_and_verification_are_respected_and_nobody_is_forgotten(
    world: World, mails: Mails
) -> None:
    world.topic()
    world.recipient("ada", "mail")
    world.recipient("bob", "mail", verified=False)
    world.recipient("cyd")
    world.recipient("dan", "mail")
    world.recipient("eve", "mail", "pager")
    program = world.program(mails.port)
    world.unsubscribe(program, "dan")
    world.unsubscribe(program, "eve")
    world.unsubscribe(program, "ada", way="pager")
    assert told(world, mails) == ["23 09:00 ada"]
    assert mails.to == ["ada"]
    assert world.outcomes() == [
        ("ada", "mail", "sent", ""),
        ("bob", "", "skipped", "mail: not verified"),
        ("cyd", "", "skipped", "no address"),
        ("dan", "", "skipped", "mail: unsubscribed"),
        ("eve", "pager", "planned", ""),  # no worker has that channel
    ]


def test_an_event_without_a_topic_is_kept_as_such(sqlite: World, mails: Mails) -> None:
    assert told(sqlite, mails) == []
    why = "no topic has the name of the event's type"
    assert sqlite.outcomes("topic", "outcome", "why") == [(PAID, "skipped", why)]


@pytest.mark.parametrize("named", ["bob", "bo", "b o", 7, ["bob"]])
def test_an_event_may_name_its_only_recipient(world: World, mails: Mails, named: object) -> None:
    world.topic()
    world.recipient("ada", "mail")
    world.recipient("bob", "mail")
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {"recipient": named}, id="e1")
        trial.advance("10s")
    assert mails.to == (["bob"] if named == "bob" else [])
    why = f"the event names a recipient that is not there: {named!a}"
    assert world.outcomes("why") == [("" if named == "bob" else why,)]


@pytest.mark.parametrize("named", [None, "", [], {}, False])
def test_an_event_whose_recipient_is_empty_is_for_nobody(
    world: World, mails: Mails, named: object
) -> None:
    """A code for one, from a program that did not know whom, went to all."""
    world.topic()
    for id in ("ada", "None", "False"):
        world.recipient(id, "mail")
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {"recipient": named, "code": "4711"}, id="e1")
        trial.advance("10s")
    assert mails.tried == 0
    why = "the recipient that the event names is empty"
    assert world.outcomes() == [("", "", "skipped", why)]


def test_an_address_that_is_none_keeps_no_other_notice_back(sqlite: World, mails: Mails) -> None:
    sqlite.topic()
    for id in ("ada", "bob", "cyd"):
        sqlite.recipient(id, "mail")
    sqlite.address("bob", "mail", "nowhere")
    assert told(sqlite, mails) == ["23 09:00 ada", "23 09:00 cyd"]
    ((outcome, why),) = sqlite.rows("SELECT outcome, why FROM notices WHERE recipient = 'bob'")
    assert (outcome, "must be a mail address" in why) == ("failed", True)


def test_each_recipient_reads_a_language_that_is_there(world: World, mails: Mails) -> None:
    world.topic()
    for id, language in (("ada", "en"), ("bob", "de"), ("cyd", "de-AT"), ("dan", "fr")):
        world.recipient(id, "mail", language=language)
    told(world, mails)
    words = {to: mails.texts(to)[0].partition(" http")[0] for to in ("ada", "bob", "cyd", "dan")}
    assert words == {
        "ada": "Paid: Dear Ada, thanks.",
        "bob": "Bezahlt: Danke, Bob.",
        "cyd": "Bezahlt: Danke, Cyd.",
        "dan": "Paid: Dear Dan, thanks.",
    }


@pytest.mark.parametrize(
    ("language", "read"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("de-at", "de"),
        ("pt-br", "pt-BR"),
        ("PT-BR", "pt-BR"),
        ("pt-PT", "en"),
        ("zh-hant-tw", "zh-Hant"),
        ("zh-Hant", "zh-Hant"),
        ("zh-Hans-CN", "en"),
        ("EN-GB", "en"),
        ("fr", "en"),
    ],
)
def test_languages_are_compared_without_case_and_part_by_part(language: str, read: str) -> None:
    texts = {tag: Text(tag, "b") for tag in ("en", "de", "pt-BR", "zh-Hant")}
    topic = Topic(name=PAID, language="EN", texts=texts)
    assert topic.text_for(language) == (read, texts[read])


def test_of_two_texts_whose_tags_differ_in_case_the_one_of_that_case_is_read() -> None:
    """As tables of before may have them."""
    texts = {tag: Text(tag, "b") for tag in ("DE", "de")}
    topic = Topic(name=PAID, language="de", texts=texts)
    assert [topic.text_for(tag) for tag in texts] == [(tag, texts[tag]) for tag in texts]


def test_a_language_in_another_case_has_no_second_text(world: World) -> None:
    world.topic()
    text = Text("Neu", "{{ data.unsubscribe }}")
    assert world.put(topics.put_text, PAID, "DE", text) is False
    assert world.put(topics.put_text, PAID, "fr", text) is True
    assert world.rows("SELECT language FROM texts ORDER BY lower(language)") == [
        ("DE",),
        ("en",),
        ("fr",),
    ]


def test_hours_are_those_of_the_recipients_zone(world: World, mails: Mails) -> None:
    """At 2026-11-23T23:30Z it is night in Berlin, day in Tokyo and evening in New York."""
    world.topic()
    for id, zone in (("ber", "Europe/Berlin"), ("nyc", "America/New_York"), ("tok", "Asia/Tokyo")):
        world.recipient(id, "mail", zone=zone, hours=("08:00-18:00",))
    world.recipient("any", "mail")
    assert told(world, mails, "2026-11-23T23:30Z") == [
        "23 23:30 any",
        "23 23:30 tok",
        "24 07:00 ber",
        "24 13:00 nyc",
    ]


@pytest.mark.parametrize(
    ("at", "opening"),
    [
        ("2026-03-27T22:00Z", "28 08:00 ada"),  # Saturday, the day before the change: UTC+1
        ("2026-03-28T22:00Z", "29 07:00 ada"),  # Sunday, the clock was put forward: UTC+2
        ("2026-10-24T22:00Z", "25 08:00 ada"),  # Sunday, the clock was put back: UTC+1
    ],
)
def test_hours_are_those_of_the_wall_when_the_clock_is_changed(
    sqlite: World, mails: Mails, at: str, opening: str
) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail", zone="Europe/Berlin", hours=("09:00-20:00",))
    assert told(sqlite, mails, at, "1d") == [opening]


def test_a_critical_topic_passes_the_hours_and_respects_preferences(
    world: World, mails: Mails
) -> None:
    world.topic(critical=True)
    for id in ("ada", "bob"):
        world.recipient(id, "mail", hours=("10:00-18:00",))
    world.unsubscribe(world.program(mails.port), "bob")
    assert told(world, mails) == ["23 09:00 ada"]


def test_who_unsubscribes_between_two_tries_gets_no_further_one(world: World, mails: Mails) -> None:
    """Onbeat judges a condition until it has held, so a notice that was tried is cancelled."""
    world.topic()
    for id in ("ada", "bob"):
        world.recipient(id, "mail")
    mails.answers += ["451 busy", "451 busy"]
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {}, id="e1")
        trial.drain()
        assert (mails.tried, mails.to) == (2, [])
        world.unsubscribe(program, "ada")
        trial.advance("1h")
    assert mails.to == ["bob"]
    assert world.outcomes() == [
        ("ada", "mail", "cancelled", "unsubscribed"),
        ("bob", "mail", "sent", ""),
    ]


def test_a_changed_address_gets_what_waits_no_more(sqlite: World, mails: Mails) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail", hours=("10:00-18:00",))
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {}, id="e1")
        trial.drain()
        sqlite.address("ada", "mail", "new@example.com")
        trial.advance("2h")
    assert mails.to == []
    assert sqlite.outcomes() == [("ada", "mail", "skipped", "the address was changed")]


def test_an_event_that_comes_again_tells_nobody_twice(world: World, mails: Mails) -> None:
    world.topic()
    world.recipient("ada", "mail")
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        assert program.beat.events.publish(PAID, {}, id="e1").created
        trial.advance("10s")
        assert not program.beat.events.publish(PAID, {}, id="e1").created
        program.beat.events.replay("e1")
        trial.advance("10s")
        # Kept for seven days, an event that comes again later is a new one to Onbeat.
        trial.assert_ran(PLAN, times=1)
        trial.advance("20d")
        program.beat.events.publish(PAID, {}, id="e1")
        trial.advance("10s")
    assert mails.to == ["ada"]


def test_another_store_of_jobs_tells_nobody_twice(world: World, mails: Mails) -> None:
    """As after a loss of the store: the events come again, and the table of notices is left."""
    world.topic()
    world.recipient("ada", "mail")
    for _ in range(2):
        assert len(told(world, mails, until="1m")) <= 1
    assert mails.to == ["ada"]
    assert world.outcomes() == [("ada", "mail", "sent", "")]


def test_recipients_are_planned_in_portions_that_may_repeat(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "PORTION", 3)
    world.topic()
    ids = world.recipients(10)
    cause, subject = Cause("/shop", "e1"), Topic(name=PAID, texts={"en": Text("t", "b")})
    seen, after = list[str](), ""
    while portion := world.put(notices.plan_portion, cause, subject, after, AT):
        again = world.put(notices.plan_portion, cause, subject, after, AT)
        assert again == portion
        assert len(portion.notices) <= 3
        seen += [one.recipient.id for one in portion.notices]
        after = portion.last
    assert seen == ids
    assert len(world.outcomes()) == 10


def test_old_notices_are_forgotten(world: World, mails: Mails) -> None:
    world.topic()
    world.recipients(30)
    program = world.program(mails.port, keep_days=10)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {}, id="old")
        trial.advance("8d")
        assert len(world.outcomes()) == 30
        trial.advance("3d")
        assert world.outcomes() == []


def test_a_preference_may_be_taken_back(world: World, mails: Mails) -> None:
    world.topic()
    world.recipient("ada", "mail")
    program = world.program(mails.port)
    world.unsubscribe(program, "ada")
    world.finish(program.prefer(Wish("ada", PAID, "mail"), allowed=True))
    assert told(world, mails) == ["23 09:00 ada"]


def planned(world: World, number: int) -> list[str]:
    """The names of notices that wait, one for each of so many recipients."""
    world.topic()
    cause, subject = Cause("/shop", "e1"), Topic(name=PAID, texts={"en": Text("t", "b")})
    ids = world.recipients(number)
    world.put(notices.plan_portion, cause, subject, "", AT)
    return [cause.name(id, "mail") for id in ids]


async def started(world: World, name: str, job: str) -> bool:
    async with world.database.session() as session:
        address = f"{name.split()[1]}@example.com"
        return await notices.start(session, name, address, job)


def test_of_two_jobs_for_one_notice_only_one_may_start(world: World) -> None:
    names = planned(world, 20)

    async def both() -> list[list[bool]]:
        return await asyncio.gather(
            *(asyncio.gather(*(started(world, name, job) for job in "ab")) for name in names)
        )

    assert [sorted(answers) for answers in world.finish(both())] == 20 * [[False, True]]
    winners = world.rows("SELECT job FROM notices ORDER BY name")
    again = [world.finish(started(world, n, job)) for n, (job,) in zip(names, winners, strict=True)]
    assert again == 20 * [True]


def test_a_notice_that_starts_has_seen_the_preference_or_is_stopped_by_it(world: World) -> None:
    names = planned(world, 40)

    async def refuse(name: str) -> list[str]:
        async with world.database.session() as session:
            return await people.prefer(session, name.split()[1], PAID, "mail", allowed=False)

    async def race() -> list[tuple[bool, list[str]]]:
        async def one(name: str) -> tuple[bool, list[str]]:
            return tuple(await asyncio.gather(started(world, name, name), refuse(name)))  # type: ignore[return-value]

        return await asyncio.gather(*map(one, names))

    for name, (may_start, stopped) in zip(names, world.finish(race()), strict=True):
        assert stopped == ([name] if may_start else [])


recipients = st.lists(st.sampled_from("abcdef"), unique=True)
ways = st.lists(
    st.tuples(st.sampled_from("abcdefg"), st.sampled_from(["mail", "sms"]), st.booleans()),
    unique_by=lambda way: way[:2],
)
refused = st.sets(st.tuples(st.sampled_from("abcdefg"), st.sampled_from(["mail", "sms"])))


@given(recipients, ways, refused)
def test_each_recipient_gets_what_is_allowed_once_or_a_reason(
    ids: list[str], own: list[tuple[str, str, bool]], no: set[tuple[str, str]]
) -> None:
    people_here = [Recipient(id=id, name=id) for id in ids]
    addresses = [Address(recipient=r, channel=c, address="x", verified=v) for r, c, v in own]
    subject = Topic(name=PAID, texts={"en": Text("t", "b")})
    planned = list(plan(subject, people_here, addresses, no))
    sent = [(one.recipient.id, one.address.channel) for one in planned if isinstance(one, Notice)]
    wanted = {(r, c) for r, c, verified in own if verified and r in ids} - no
    assert sorted(sent) == sorted(wanted)
    skipped = [one.recipient for one in planned if isinstance(one, Skipped)]
    assert sorted(skipped) == sorted(set(ids) - {r for r, _ in wanted})
    assert all(one.why for one in planned if isinstance(one, Skipped))


def test_the_key_of_a_notice_is_its_own() -> None:
    names = [
        Cause(source, id).name(recipient, channel)
        for source, id in (("a", "b c"), ("a b", "c"))
        for recipient in ("r", "r2")
        for channel in ("mail", "sms")
    ]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 200
