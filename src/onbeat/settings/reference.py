"""The reference page of all settings, generated from their records."""

from typing import Final

from onbeat.model.broker_options import BROKER_URLS, BrokerOption, BrokerUrl
from onbeat.settings.setting import Setting
from onbeat.settings.table import TABLE

HEAD: Final = """\
# Settings

Written by `python -m onbeat.settings.reference`; a test holds it to the settings record.

What is set later in this row wins: defaults, `onbeat.yaml` (another file by `--config` or
`ONBEAT_CONFIG`), `.env` (another file by `ONBEAT_DOTENV`, none by `ONBEAT_DOTENV=off`),
environment, flags of `onbeat up`. A missing `onbeat.yaml` is fine, a missing file that was named is
not. An unknown key or variable, and a value that cannot be, stop the start with one line that names
the key, the value, where it stands and what would be right. Variables in `.env` without the prefix
`ONBEAT_` are set for your program, unless the environment has them.

Groups nest in the file (`api:` with `port: 8080` under it) and are joined by `__` in the
environment. Spans are `90s`, `5m`, `1h30m`, `PT5M` or a number of seconds. Lists are YAML lists, or
texts with commas between. A key without a flag is a secret: every user of a machine can read its
command lines.

| key | default | environment | flag | meaning |
|---|---|---|---|---|
"""

TAIL: Final = """
The default of `store` is for a service without a program. Under `onbeat up app.py` the program
keeps the store that its `Onbeat(URL)` names, unless `store` is set in one of these places. Other
commands load no program: set `store` for them, as by `ONBEAT_STORE`.

`api.host` beyond loopback needs `api.keys`, or `api.insecure` where something in front of Onbeat
lets only the right people through. `http.allow_private` as `auto` follows `api.host` of the process
that sends the callback, so set `api.host` (or `http.allow_private`) the same in every process of a
fleet. `onbeat` commands that talk to a service read `ONBEAT_SERVER` and `ONBEAT_API_KEY`; these
are not settings of the service.
"""

BROKERS_HEAD: Final = """
## Options of a broker's URL

Options follow a `?` in `transport` and in the URLs of `connections`, with `&` between them:
`sqs://eu-central-1?prefix=prod-&visibility=120`. Values are percent-encoded. An unknown option, one
that is given twice, and a value that cannot be stop the start. See
[use a broker](../guides/use-a-broker.md), also for the rights that a broker must grant.
"""

OPTIONS_HEAD: Final = """\
| option | values | default | meaning |
|---|---|---|---|
"""


def reference_page() -> str:
    """The page in Markdown."""
    rows = "\n".join(map(table_row, TABLE.values()))
    brokers = "".join(map(broker_section, BROKER_URLS))
    return f"{HEAD}{rows}\n{TAIL}{BROKERS_HEAD}{brokers}"


def broker_section(url: BrokerUrl) -> str:
    rows = "".join(map(option_row, url.options))
    title = f"\n### {url.broker}\n\n`{url.form}`, with the extra `{url.extra}`.\n\n"
    return f"{title}{OPTIONS_HEAD}{rows}"


def option_row(option: BrokerOption) -> str:
    default = f"`{option.default}`" if option.default else option.unset
    return f"| `{option.name}` | {values_of(option)} | {default} | {option.meaning} |\n"


def values_of(option: BrokerOption) -> str:
    match option.kind:
        case "whole number":
            return f"{option.low} to {option.high}"
        case "seconds":
            return f"seconds above 0, up to {option.high}"
        case "flag":
            return "`true`, `false`"
        case "text":
            return "text"


def table_row(setting: Setting) -> str:
    flag = f"`{setting.flag}`" if setting.flag else "none"
    default = "all" if setting.path == "roles" else setting.default_text
    cells = (f"`{setting.path}`", f"`{default}`", f"`{setting.environment}`", flag)
    return f"| {' | '.join(cells)} | {setting.key.meaning} |"


if __name__ == "__main__":
    print(reference_page(), end="")  # noqa: T201  redirected into docs/reference/settings.md
