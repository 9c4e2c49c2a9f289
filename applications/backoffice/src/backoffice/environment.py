"""From the environment of the old system to that of Onbeat."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

from backoffice.config import Config, ConfigError
from backoffice.tasks import BILLING_QUEUE, RECORDING_QUEUE

BROKER: Final = "mq"
"""The connection of Onbeat that leads to `QUEUE_URL`."""

DISTRIBUTION: Final = "distribution"
CONTROL_QUEUES: Final = f"{DISTRIBUTION},mails,default"
LOG_FILE: Final = "log.txt"
WORKER_CONCURRENCY: Final = 10
"""Jobs of a worker at once: as many as the connections of its pool to the database."""


class RoleError(ConfigError):
    """There is no such role; the message names them."""


@dataclass(frozen=True)
class Role:
    """What a process does: roles of Onbeat, and the queues that it serves."""

    roles: str
    queues: str

    @property
    def plans(self) -> bool:
        return "planner" in self.roles.split(",")


CONTROL: Final = "api,planner,dispatcher,worker,maintenance"
ROLES: Final = {
    "distributor": Role(CONTROL, CONTROL_QUEUES),
    "worker-billing": Role("dispatcher,worker", BILLING_QUEUE),
    "worker-recordings": Role("dispatcher,worker", RECORDING_QUEUE),
    "all": Role(CONTROL, f"{CONTROL_QUEUES},{BILLING_QUEUE},{RECORDING_QUEUE}"),
}


def role_of(variables: Mapping[str, str]) -> Role:
    """Raises `RoleError`."""
    name = variables.get("RUN_AS") or "all"
    if name not in ROLES:
        raise RoleError(f"RUN_AS is one of {', '.join(ROLES)}, not {name!r}")
    return ROLES[name]


def with_dotenv(variables: Mapping[str, str]) -> dict[str, str]:
    """With what `.env` adds; of a name that stands in it twice the last counts.

    `USE_DOTENV=off` leaves the file alone, and `ONBEAT_DOTENV` names another one.
    """
    path = variables.get("ONBEAT_DOTENV") or ".env"
    if variables.get("USE_DOTENV") == "off" or path == "off":
        return {**variables, "ONBEAT_DOTENV": "off"}
    if "ONBEAT_DOTENV" in variables and not Path(path).is_file():
        raise ConfigError(f"ONBEAT_DOTENV names no file: {path}")
    found = dotenv_values(path, interpolate=False)
    added = {name: value for name, value in found.items() if value is not None}
    return {**added, **variables, "ONBEAT_DOTENV": "off"}


def for_onbeat(config: Config, variables: Mapping[str, str], role: Role) -> dict[str, str]:
    """The environment of `onbeat up`. What is set for Onbeat by name stays as it is."""
    if not config.queue_url:
        raise ConfigError("QUEUE_URL is needed, such as amqp://USER:PASSWORD@HOST:5672/")
    own = {
        "ONBEAT_STORE": config.jobs_store,
        "ONBEAT_CONNECTIONS": f"{BROKER}={config.queue_url}",
        "ONBEAT_LOG__DESTINATIONS": log_destinations(variables),
        "ONBEAT_ROLES": role.roles,
        "ONBEAT_WORKER__QUEUES": role.queues,
        "ONBEAT_WORKER__CONCURRENCY": str(WORKER_CONCURRENCY),
    }
    return own | dict(variables)


def log_destinations(variables: Mapping[str, str]) -> str:
    """`LOG_DESTINATIONS` in the words of Onbeat; stdout always."""
    names = [name.strip() for name in variables.get("LOG_DESTINATIONS", "").split(",")]
    return ",".join(["stdout", *(log_destination(name, variables) for name in names if name)])


def log_destination(name: str, variables: Mapping[str, str]) -> str:
    match name:
        case "file":
            return f"file:{LOG_FILE}"
        case "cloudwatch":
            return f"cloudwatch:{variables.get('LOG_GROUP') or 'backoffice'}"
        case "logstash":
            return f"tcp://{logstash(variables)}"
        case _:
            raise ConfigError(f"LOG_DESTINATIONS knows file, cloudwatch and logstash, not {name!r}")


def logstash(variables: Mapping[str, str]) -> str:
    address = variables.get("LOGSTASH_ADDRESS", "")
    host, _, port = address.partition(":")
    if not host or not (port or "8911").isdigit():
        raise ConfigError("LOGSTASH_ADDRESS is needed for logstash, such as logs.internal:8911")
    return f"{host}:{port or 8911}"


def of_process() -> dict[str, str]:
    """The variables of this process, with `.env`."""
    return with_dotenv(os.environ)
