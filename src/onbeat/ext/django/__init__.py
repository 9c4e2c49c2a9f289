"""Onbeat in a Django project: `INSTALLED_APPS += ["onbeat.ext.django"]`, `ONBEAT = {...}`.

`from onbeat.ext.django import beat` is the program of the project, made on first use by its
settings; `onbeat up onbeat.ext.django:beat` and `manage.py onbeat up` run it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onbeat.ext.django.program import DjangoOnbeat

    beat: DjangoOnbeat

__all__ = ["beat"]


def __getattr__(name: str) -> Any:
    if name != "beat":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onbeat.ext.django.program import program  # noqa: PLC0415  needs the settings

    return program()
