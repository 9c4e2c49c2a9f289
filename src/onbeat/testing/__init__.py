"""Public test kit: the types of a trial, builders of records, contracts of stores and brokers."""

from onbeat.app.virtual_clock import FinishedAttempt, VirtualRun

__all__ = ["FinishedAttempt", "VirtualRun"]
