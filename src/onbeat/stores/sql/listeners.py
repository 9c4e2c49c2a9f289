"""Who wants to hear that something may have changed."""

import logging
import threading
from collections.abc import Callable, Iterable

from onbeat.ports.store import Hint

log = logging.getLogger(__name__)

Heard = Callable[[Hint], None]


class Listeners:
    """Told from the store's loops and threads; added and removed from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: tuple[Heard, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._heard)

    def add(self, heard: Heard) -> Callable[[], None]:
        """Answers with the way to be told no more."""

        # A bound method is another object each time it is named, so that the same one added twice
        # and removed once would be ambiguous without this wrapper.
        def tell(hint: Hint) -> None:
            heard(hint)

        with self._lock:
            self._heard = (*self._heard, tell)
        return lambda: self._remove(tell)

    def tell(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            for heard in self._heard:
                try:
                    heard(hint)
                except Exception:  # a listener's fault must not stop who tells
                    log.exception("store.listener_failed")

    def _remove(self, tell: Heard) -> None:
        with self._lock:
            self._heard = tuple(one for one in self._heard if one is not tell)
