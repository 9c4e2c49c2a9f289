"""Public test kit: trials, histories with crashes, builders of records, contracts of adapters."""

from onbeat.app.virtual_clock import FinishedAttempt, VirtualRun
from onbeat.testing.handler_histories import CrashReport, Effects, run_with_crashes

__all__ = ["CrashReport", "Effects", "FinishedAttempt", "VirtualRun", "run_with_crashes"]
