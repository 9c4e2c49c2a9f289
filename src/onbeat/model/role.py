"""Roles of a process."""

from enum import StrEnum


class Role(StrEnum):
    """A process can have several; `maintenance` rescues, prunes and collects results."""

    API = "api"
    PLANNER = "planner"
    DISPATCHER = "dispatcher"
    WORKER = "worker"
    MAINTENANCE = "maintenance"
