"""Every setting, by its key."""

from typing import Final

from onbeat.settings.records import Settings
from onbeat.settings.setting import Setting, settings_of

TABLE: Final[dict[str, Setting]] = {setting.path: setting for setting in settings_of(Settings)}

GROUPS: Final = frozenset(path.partition(".")[0] for path in TABLE if "." in path)

# Variables of the command line: URL and key of the service, and the configuration file.
RESERVED: Final = frozenset({"ONBEAT_CONFIG", "ONBEAT_DOTENV", "ONBEAT_SERVER", "ONBEAT_API_KEY"})
