"""Telemetry of Onbeat: log lines and metrics."""
