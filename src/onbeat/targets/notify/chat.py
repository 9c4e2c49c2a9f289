"""Messages to chats: the JSON that each takes, within its limits."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from onbeat.model.channel import ChatHook
from onbeat.model.target import HttpTarget
from onbeat.ports.notices import Notice
from onbeat.targets.notify.post import post, secret_url
from onbeat.targets.notify.secrets import read_secret

CUT: Final = "…"
SLACK_TITLE_MAX: Final = 150  # characters of a header block
SLACK_TEXT_MAX: Final = 3_000  # of a section block
SLACK_SECTIONS_MAX: Final = 10  # of 50 blocks; longer messages are cut by the clients anyway
DISCORD_TITLE_MAX: Final = 256
DISCORD_TEXT_MAX: Final = 4_096  # of an embed, whose title and text have at most 6,000
TEAMS_BYTES_MAX: Final = 28_000  # of a whole message
TEAMS_TITLE_MAX: Final = 500
ADAPTIVE_CARD: Final = "application/vnd.microsoft.card.adaptive"
SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def chat_target(hook: ChatHook, notice: Notice) -> HttpTarget:
    """The request. Raises `Misconfigured` without the secret."""
    url = secret_url(read_secret(hook.url))
    return post(url, MESSAGES[hook.kind](notice.title or "", notice.text or ""))


def slack_message(title: str, text: str) -> Mapping[str, Any]:
    """Blocks; `text` is for notifications. The escapes keep a text from calling everyone."""
    blocks: list[Mapping[str, Any]] = []
    if title:
        header = {"type": "plain_text", "text": cut(title, SLACK_TITLE_MAX)}
        blocks.append({"type": "header", "text": header})
    sections = ({"type": "mrkdwn", "text": part} for part in parts_of(text))
    blocks += [{"type": "section", "text": section} for section in sections]
    return {"text": cut(title or text, SLACK_TEXT_MAX).translate(SLACK_ESCAPES), "blocks": blocks}


def parts_of(text: str) -> Iterator[str]:
    """The escaped text in parts that a section can have; what is over all of them is cut off."""
    part, count = "", 1
    for char in text:
        escaped = char.translate(SLACK_ESCAPES)
        if len(part) + len(escaped) > SLACK_TEXT_MAX - len(CUT):
            if count == SLACK_SECTIONS_MAX:
                yield part + CUT
                return
            yield part
            part, count = "", count + 1
        part += escaped
    if part.strip():
        yield part


def teams_message(title: str, text: str) -> Mapping[str, Any]:
    """An adaptive card in a message; the longest text that fits."""
    short = cut(title, TEAMS_TITLE_MAX)
    around = len(msgspec.json.encode(card(short, CUT))) - len(msgspec.json.encode(CUT))
    return card(short, cut_to_bytes(text, TEAMS_BYTES_MAX - around))


def card(title: str, text: str) -> Mapping[str, Any]:
    body: list[Mapping[str, Any]] = []
    if title:
        style = {"size": "Medium", "weight": "Bolder", "wrap": True}
        body.append({"type": "TextBlock", "text": title, **style})
    if text or not title:
        body.append({"type": "TextBlock", "text": text, "wrap": True})
    content = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    return {"type": "message", "attachments": [{"contentType": ADAPTIVE_CARD, "content": content}]}


def discord_message(title: str, text: str) -> Mapping[str, Any]:
    """An embed. No mention in it reaches anyone."""
    embed = {"title": cut(title, DISCORD_TITLE_MAX), "description": cut(text, DISCORD_TEXT_MAX)}
    shown = {name: value for name, value in embed.items() if value}
    return {"embeds": [shown], "allowed_mentions": {"parse": []}}


MESSAGES: Final[Mapping[str, Callable[[str, str], Mapping[str, Any]]]] = {
    "slack": slack_message,
    "teams": teams_message,
    "discord": discord_message,
}


def cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - len(CUT)] + CUT


def cut_to_bytes(text: str, bytes_max: int) -> str:
    """The longest start of the text whose JSON has no more bytes, with a mark if it is cut."""
    if len(msgspec.json.encode(text)) <= bytes_max:
        return text
    left = bytes_max - len(msgspec.json.encode(CUT))
    kept = 0
    for char in text:
        left -= len(msgspec.json.encode(char)) - len('""')
        if left < 0:
            break
        kept += 1
    return text[:kept] + CUT
