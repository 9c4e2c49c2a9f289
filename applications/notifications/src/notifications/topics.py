"""Topics: what recipients may be told, in their languages."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from notifications.database import Session
from notifications.people import RefusedError, check_language, require
from onbeat import Invalid, Onbeat, Options

NAME_CHARS_MAX: Final = 100
GOOD_FOR_MAX: Final = 366 * 24 * 3600
LINK: Final = "data.unsubscribe"
NOT_FILLED_IN: Final = "{% if data %}{% endif %}"
"""Onbeat fills in a text without a tag when it is sent, and here nobody knows the event yet."""


@dataclass(frozen=True)
class Text:
    """Liquid templates over `data`: `event` (its data), `name`, `language` and `unsubscribe`."""

    title: str
    body: str
    html: str = ""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Its name is the type of its events.

    Notices of a `critical` one pass the hours of recipients; those of a `sensitive` one are never
    shown. `good_for` is how many seconds after its event a notice may start; 0 is for ever.
    `language` is for recipients in whose language there is no text.
    """

    name: str
    critical: bool = False
    sensitive: bool = False
    good_for: int = 0
    language: str = "en"
    texts: Mapping[str, Text] = field(default_factory=dict[str, Text])

    def text_for(self, language: str) -> tuple[str, Text] | None:
        """That of the language, of what is left of its tag, or of the topic; and in which it is.

        Tags are compared without case, and lose part by part from their end (RFC 4647, lookup).
        """
        tags = {tag.lower(): tag for tag in self.texts}
        for wanted in (*shorter(language), self.language):
            tag = wanted if wanted in self.texts else tags.get(wanted.lower())
            if tag is not None:
                return tag, self.texts[tag]
        return None


def shorter(tag: str) -> Iterator[str]:
    """`zh-Hant-TW`, `zh-Hant` and `zh`."""
    while tag:
        yield tag
        tag = tag.rpartition("-")[0]


async def put_topic(session: Session, topic: Topic, patterns: Sequence[str]) -> bool:
    """Add the topic, or change it and the texts that it has here; whether it is new.

    `patterns` are the types of events that come here. Raises `RefusedError`.
    """
    check_topic(topic, patterns)
    for language, text in topic.texts.items():
        check_language(language)
        await check_text(text)
    values = (int(topic.critical), int(topic.sensitive), topic.good_for, topic.language)
    async with session.transaction():
        found = await session.rows("SELECT 1 FROM topics WHERE name = ?", topic.name)
        await session.run(
            "INSERT INTO topics (name, critical, sensitive, good_for, language)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
            " critical = excluded.critical, sensitive = excluded.sensitive,"
            " good_for = excluded.good_for, language = excluded.language",
            topic.name,
            *values,
        )
        for language, text in topic.texts.items():
            await keep_text(session, topic.name, language, text)
        kept = await texts_of(session, topic.name)
        if topic.language.lower() not in map(str.lower, kept):
            raise RefusedError("language", f"give a text in {topic.language}, for all other ones")
        if not topic.critical:
            check_links(kept, topic.texts)
    return not found


async def put_text(session: Session, name: str, language: str, text: Text) -> bool:
    """Give a topic a text, or change the one in this language; whether it is new.

    Raises `RefusedError`.
    """
    check_language(language)
    await check_text(text)
    async with session.transaction():
        await require(session, "topics", "name", name, "topic")
        ((critical,),) = await session.rows("SELECT critical FROM topics WHERE name = ?", name)
        if not critical:
            check_links({language: text}, {language})
        found = await keep_text(session, name, language, text)
    return not found


async def keep_text(session: Session, name: str, language: str, text: Text) -> bool:
    """In a transaction of the caller; whether there was one, also with its tag in another case."""
    found = await session.run(
        "DELETE FROM texts WHERE topic = ? AND lower(language) = ?", name, language.lower()
    )
    await session.run(
        "INSERT INTO texts (topic, language, title, body, html) VALUES (?, ?, ?, ?, ?)",
        name,
        language,
        text.title,
        text.body,
        text.html,
    )
    return bool(found)


def check_topic(topic: Topic, patterns: Sequence[str]) -> None:
    if not 0 < len(topic.name) <= NAME_CHARS_MAX or not any(
        topic.name == pattern or (pattern[-1] == "*" and topic.name.startswith(pattern[:-1]))
        for pattern in patterns
    ):
        raise RefusedError(
            "topic",
            f"give a type of events that NOTIFICATIONS_EVENTS lets in ({' '.join(patterns)}), of"
            f" at most {NAME_CHARS_MAX} characters, not {topic.name!r:.200}",
        )
    check_language(topic.language)
    if not 0 <= topic.good_for <= GOOD_FOR_MAX:
        raise RefusedError("good_for", "give at most 366 days")


def check_links(texts: Mapping[str, Text], given: Container[str]) -> None:
    """Each part that a recipient may read has the link; `given` are languages of this call."""
    from notifications import filled  # noqa: PLC0415  slow to load

    for tag, text in texts.items():
        for name, part in (("text", text.body), ("html", text.html)):
            if (part or name == "text") and not filled.has_link(part):
                where = "it" if tag in given else f"that in {tag}"
                raise RefusedError(
                    name, f"put the link to unsubscribe into {where}: {{{{ {LINK} }}}}"
                )


async def check_text(text: Text) -> None:
    """Onbeat reads templates where a notice is sent, so one is sent that never starts."""
    beat = Onbeat("memory://", options=Options(channels={"any": "webhook+http://127.0.0.1/"}))
    title, body, html = (one and one + NOT_FILLED_IN for one in (text.title, text.body, text.html))
    try:
        await beat.anotify("any", "a", title=title, text=body, html=html or None, delay="1d")
    except Invalid as error:
        raise RefusedError(error.field or "text", str(error)) from None
    finally:
        await beat.aclose()


async def topic(session: Session, name: str) -> Topic | None:
    """The topic with its texts."""
    rows = await session.rows(
        "SELECT critical, sensitive, good_for, language FROM topics WHERE name = ?", name
    )
    if not rows:
        return None
    critical, sensitive, good_for, language = rows[0]
    return Topic(
        name=name,
        critical=bool(critical),
        sensitive=bool(sensitive),
        good_for=good_for,
        language=language,
        texts=await texts_of(session, name),
    )


async def texts_of(session: Session, name: str) -> dict[str, Text]:
    """By language."""
    rows = await session.rows(
        "SELECT language, title, body, html FROM texts WHERE topic = ? ORDER BY language", name
    )
    return {tag: Text(title, body, html) for tag, title, body, html in rows}


async def topic_names(session: Session) -> list[str]:
    return [name for (name,) in await session.rows("SELECT name FROM topics ORDER BY name")]
