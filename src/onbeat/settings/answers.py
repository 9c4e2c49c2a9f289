"""The settings of a process for people: each with its value and where it was set."""

from operator import attrgetter
from typing import Final, cast

from onbeat.model.credentials import HIDDEN
from onbeat.model.remote_task import RemoteTask
from onbeat.settings.records import Settings
from onbeat.settings.setting import Setting, default_text
from onbeat.settings.table import TABLE
from onbeat.telemetry.redaction import escape_controls, without_credentials
from onbeat.wire.settings import SettingAnswer

VALUE_CHARS_MAX: Final = 1_000
DEFAULT: Final = "default"
OF_PROGRAM: Final = "the program"


def setting_answers(settings: Settings) -> tuple[SettingAnswer, ...]:
    """Every setting, by the order of the reference."""
    return tuple(setting_answer(settings, one) for one in TABLE.values())


def setting_answer(settings: Settings, setting: Setting) -> SettingAnswer:
    value: object = attrgetter(setting.path)(settings)
    unset = DEFAULT if value == setting.default else OF_PROGRAM
    return SettingAnswer(
        key=setting.path,
        value=shown_value(setting, value),
        origin=settings.origins.get(setting.path, unset),
    )


def shown_value(setting: Setting, value: object) -> str:
    """Without secrets, on one line."""
    if setting.key.secret and value:
        return HIDDEN
    if isinstance(value, tuple):
        value = tuple(map(name_of, cast("tuple[object, ...]", value)))
    text = default_text(value, setting.key.unset)
    return escape_controls(without_credentials(text))[:VALUE_CHARS_MAX]


def name_of(value: object) -> object:
    return value.name if isinstance(value, RemoteTask) else value
