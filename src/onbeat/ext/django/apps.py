"""The Django app: it imports the `tasks` modules of all installed apps."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class OnbeatConfig(AppConfig):
    name = "onbeat.ext.django"
    label = "onbeat"
    verbose_name = "Onbeat"

    def ready(self) -> None:
        autodiscover_modules("tasks")
