"""Every setting, by its key."""

from typing import Final

from onbeat.settings.records import Settings
from onbeat.settings.setting import Setting, settings_of
from onbeat.wire.commands import JOB_VARIABLES

TABLE: Final[dict[str, Setting]] = {setting.path: setting for setting in settings_of(Settings)}

GROUPS: Final = frozenset(path.partition(".")[0] for path in TABLE if "." in path)

# Variables of the command line: URL and key of the service, and the configuration file; and those
# that a job's command has, which may be `onbeat` itself.
RESERVED: Final = JOB_VARIABLES | {
    *("ONBEAT_CONFIG", "ONBEAT_DOTENV", "ONBEAT_SERVER", "ONBEAT_API_KEY")
}
