"""Listeners for hints that something may have changed."""

import logging
import threading
from collections.abc import Callable, Iterable

from onbeat.ports.store import Hint

log = logging.getLogger(__name__)


class Listeners:
    """Called from the store's thread; `add` and removal work from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: tuple[Callable[[Hint], None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        # Each access to a bound method creates a new object. The wrapper tells apart a listener
        # that is added twice and removed once.
        def call(hint: Hint) -> None:
            on_hint(hint)

        with self._lock:
            self._callbacks = (*self._callbacks, call)
        return lambda: self._remove(call)

    def _remove(self, tell: Callable[[Hint], None]) -> None:
        with self._lock:
            self._callbacks = tuple(
                callback for callback in self._callbacks if callback is not tell
            )

    def notify(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            for on_hint in self._callbacks:
                try:
                    on_hint(hint)
                except Exception:  # a failing listener must not stop the store's thread
                    log.exception("store.listener_failed")
