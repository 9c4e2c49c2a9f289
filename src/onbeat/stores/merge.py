"""The stored form of a job from a copy."""

from msgspec.structs import replace

from onbeat.ports.store import JobExport
from onbeat.rules.merge import as_imported, is_same

__all__ = ["export_as_imported", "is_same"]


def export_as_imported(export: JobExport) -> JobExport:
    return replace(export, job=as_imported(export.job))
