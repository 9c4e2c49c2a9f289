"""Who wants to hear that something may have changed."""

import logging
import threading
from collections.abc import Callable, Iterable

from onbeat.ports.store import Hint

log = logging.getLogger(__name__)


class Listeners:
    """Called from a store's thread; added and removed from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: tuple[Callable[[Hint], None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._heard)

    def add(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        # A bound method is another object each time it is named, so that the same one added twice
        # and removed once would be ambiguous without this wrapper.
        def tell(hint: Hint) -> None:
            heard(hint)

        with self._lock:
            self._heard = (*self._heard, tell)
        return lambda: self._remove(tell)

    def _remove(self, tell: Callable[[Hint], None]) -> None:
        with self._lock:
            self._heard = tuple(one for one in self._heard if one is not tell)

    def tell(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            for heard in self._heard:
                try:
                    heard(hint)
                except Exception:  # a listener's fault must not stop the store's thread
                    log.exception("store.listener_failed")
