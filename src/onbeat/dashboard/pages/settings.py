"""How this process was set up, which keys there are, and who is logged in."""

from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.operations.tables.administration import KEY_LIST, SESSION_LIST, SETTINGS_SHOW
from onbeat.operations.tables.alerts import ALERT_LIST
from onbeat.ports.store import Finding
from onbeat.wire.settings import SettingAnswer

DEFAULT = "default"
OFF = "off"


async def settings_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    settings = (await viewer.ask(SETTINGS_SHOW)).settings
    checkup = await viewer.context.examine()
    values = {
        "checkup": checkup,
        "findings": [] if checkup is None else sorted(checkup.findings, key=lambda one: one.ok),
        "silences": (await viewer.ask(ALERT_LIST, limit=1)).silences,
        "is_off": is_off,
        "changed": [one for one in settings if is_changed(one)],
        "others": [one for one in settings if not is_changed(one)],
        "keys": (await viewer.ask(KEY_LIST)).keys,
        "sessions": (await viewer.ask(SESSION_LIST)).sessions,
    }
    return PageAnswer("settings.html", "Settings", "settings", values)


def is_off(one: Finding) -> bool:
    """Whether it tells of a protection that is not used, which is no fault and not all well."""
    return one.value.startswith(OFF)


def is_changed(one: SettingAnswer) -> bool:
    return one.origin != DEFAULT
