"""Every setting, by its key."""

from typing import Final

from onbeat.settings.keys import Setting, settings_of
from onbeat.settings.records import Settings

TABLE: Final[dict[str, Setting]] = {setting.path: setting for setting in settings_of(Settings)}

GROUPS: Final = frozenset(path.partition(".")[0] for path in TABLE if "." in path)

# Variables of the command line: where the service is, and the file that the settings are read from.
RESERVED: Final = frozenset({"ONBEAT_CONFIG", "ONBEAT_SERVER", "ONBEAT_API_KEY"})
