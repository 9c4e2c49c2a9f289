"""What a process may do."""

from enum import StrEnum


class Role(StrEnum):
    """A process does any of these; `supervisor` renews, rescues, prunes and collects."""

    API = "api"
    PLANNER = "planner"
    DISPATCHER = "dispatcher"
    WORKER = "worker"
    SUPERVISOR = "supervisor"
