"""Reads the channels and templates of notices."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from onbeat.model.channel import Channel, Template
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.limits import TEMPLATES_MAX
from onbeat.operations.notice_checks import Notices
from onbeat.rules.channels import read_channel
from onbeat.rules.notices import SCHEDULE_KNOWN
from onbeat.targets.notify.templates import LiquidTemplates

TEXTS: Final = LiquidTemplates()
PARTS: Final = ("title", "text", "html")
SUFFIX: Final = ".liquid"


def read_channels(urls: Mapping[str, str]) -> dict[str, Channel]:
    """Raises `Misconfigured` for a URL that is none of a channel, naming the channel only."""
    result: dict[str, Channel] = {}
    for name, url in urls.items():
        try:
            result[name] = read_channel(url)
        except Invalid as error:
            raise Misconfigured(f"channels: {name} must be {error}", "channels") from None
    return result


def read_templates(folder: str | None) -> dict[str, Template]:
    """The templates in the files `NAME.title.liquid`, `NAME.text.liquid` and `NAME.html.liquid`.

    Raises `Misconfigured` with the file and the place in it.
    """
    if folder is None:
        return {}
    parts: dict[str, dict[str, str]] = {}
    try:
        for path in sorted(Path(folder).iterdir()):
            if path.name.endswith(SUFFIX):
                name, part = name_and_part(path)
                parts.setdefault(name, {})[part] = read_template(path)
    except (OSError, UnicodeError) as error:
        raise Misconfigured(f"templates: {folder} cannot be read: {error}", "templates") from None
    if len(parts) > TEMPLATES_MAX:
        raise Misconfigured(f"templates: {folder} has more than {TEMPLATES_MAX}", "templates")
    return {name: Template(**texts) for name, texts in parts.items()}


def name_and_part(path: Path) -> tuple[str, str]:
    name, _, part = path.name.removesuffix(SUFFIX).rpartition(".")
    if not name or part not in PARTS:
        raise Misconfigured(
            f"templates: {path} must be called NAME.title{SUFFIX}, NAME.text{SUFFIX} or "
            f"NAME.html{SUFFIX}",
            "templates",
        )
    return name, part


def read_template(path: Path) -> str:
    # An editor ends each file with a line break, which belongs to none of the texts.
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    try:
        TEXTS.check(text, SCHEDULE_KNOWN, str(path))
    except Invalid as error:
        raise Misconfigured(f"templates: {error}", "templates") from None
    return text


def notices_of(urls: Mapping[str, str], templates: Mapping[str, Template]) -> Notices:
    """What operations know of notices."""
    return Notices(channels_of(tuple(urls.items())), templates, TEXTS)


@lru_cache(1)
def channels_of(urls: tuple[tuple[str, str], ...]) -> Mapping[str, Channel]:
    return read_channels(dict(urls))
