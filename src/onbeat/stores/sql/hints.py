"""Listeners for hints that something may have changed."""

import logging
import threading
from collections.abc import Callable, Iterable

from onbeat.ports.store import Hint

log = logging.getLogger(__name__)

Heard = Callable[[Hint], None]


class Listeners:
    """Called from the store's loops and threads; `add` and removal work from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: tuple[Heard, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, on_hint: Heard) -> Callable[[], None]:
        """Returns a function that removes the listener."""

        # Each access to a bound method creates a new object. The wrapper tells apart a listener
        # that is added twice and removed once.
        def call(hint: Hint) -> None:
            on_hint(hint)

        with self._lock:
            self._callbacks = (*self._callbacks, call)
        return lambda: self._remove(call)

    def notify(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            for on_hint in self._callbacks:
                try:
                    on_hint(hint)
                except Exception:  # a failing listener must not stop the notifier
                    log.exception("store.listener_failed")

    def _remove(self, tell: Heard) -> None:
        with self._lock:
            self._callbacks = tuple(
                callback for callback in self._callbacks if callback is not tell
            )
