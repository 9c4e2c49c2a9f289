"""The `Onbeat` of a Django project."""

import os
import threading
from functools import cache
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import close_old_connections

from onbeat.app import event_loop
from onbeat.app.client import Onbeat
from onbeat.app.task import Context
from onbeat.ext.django.configuration import configuration
from onbeat.ext.django.sender import DjangoSender


class DjangoOnbeat(Onbeat):
    """An `Onbeat` that sends with the transactions of Django, and looks after its connections.

    `database` is the alias of the connection; `send` within its `atomic` is done if that commits.
    """

    def __init__(self, url: str, *, database: str, is_shared: bool, **given: Any) -> None:
        super().__init__(url, **given)
        self._sender = DjangoSender(self.backend, database, is_shared=is_shared)
        self.before_job(self._close_in_thread)
        self.before_job(self._close_beside_coroutine)
        self.after_job(self._close_in_thread)
        self.after_job(self._close_beside_coroutine)

    def _is_coroutine(self, context: Context) -> bool:
        handler = self._registry.find(context.task)
        return handler is not None and handler.is_async

    def _close_in_thread(self, context: Context, _error: object = None) -> None:
        """Connections belong to the thread of a plain handler."""
        if not self._is_coroutine(context):
            allow_queries_here()
            close_old_connections()

    async def _close_beside_coroutine(self, context: Context, _error: object = None) -> None:
        """Connections of coroutines belong to the thread in which Django runs their queries."""
        if self._is_coroutine(context):
            await sync_to_async(close_old_connections)()


def allow_queries_here() -> None:
    """Django refuses queries beside an event loop, which they would block.

    Only in the process of an isolated task a plain handler runs there; that loop has nothing else
    to do.
    """
    if event_loop.is_running_here():
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


MAKING: Final = threading.RLock()


def program() -> DjangoOnbeat:
    """The one of this process, by the settings. Raises ImproperlyConfigured."""
    with MAKING:
        made = make()
    set_up()
    return made


@cache
def make() -> DjangoOnbeat:
    found = configuration()
    return DjangoOnbeat(
        found.url,
        database=found.database,
        is_shared=found.is_shared,
        api_key=found.api_key,
        options=found.options,
        owner=found.owner,
        release=found.release,
    )


def set_up() -> None:
    """Load the project where nothing has: `onbeat up`, or the process of an isolated task."""
    if not apps.ready and not apps.loading:
        import django  # noqa: PLC0415  most processes are set up already

        django.setup()
