"""Every error that Onbeat raises itself; failed work is an outcome, not one of these.

OnbeatError
  NotFound          no object has this id
  Conflict          it exists already, or changed since it was read
    LeaseLost       another worker holds this job now
    RequestInFlight a request with the same idempotency key is in progress
  Invalid           the request is invalid; names the field and a valid value
    BadRecurrence   a rule that cannot be parsed, or never fires; gives the position
      TooCostly     finding its occurrences takes more steps than one request may use
    Malformed       wrong type: broken JSON, a number for a text, a bad id
    TooLarge        over a named limit
  Unauthorized      no key, or an unknown one
  Forbidden         known, but not allowed
  RateLimited       too many requests; retry later
  Unavailable       a store or broker did not answer; retry
  Undecryptable     no configured key decrypts it; names the missing one
  Misconfigured     an invalid setting; names its key
"""


class OnbeatError(Exception):
    """Something went wrong in Onbeat."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class NotFound(OnbeatError):
    """Nothing has this id."""


class Conflict(OnbeatError):
    """It exists already, or it changed meanwhile; read it again and repeat."""


class LeaseLost(Conflict):
    """Another worker holds this job now; what this attempt says no longer counts."""


class RequestInFlight(Conflict):
    """A request with the same idempotency key is under way; repeat this one in a second."""


class Invalid(OnbeatError):
    """The request cannot be right.

    `field` is the dotted path of the invalid field, or "" when no single field is invalid. `detail`
    is the full reason where `message` has to be short. `place` is a text that cannot be read, with
    the index of its first wrong character, where that is known.
    """

    def __init__(
        self,
        message: str,
        field: str = "",
        detail: str | None = None,
        place: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.detail = detail
        self.place = place


class BadRecurrence(Invalid, ValueError):
    """A rule that cannot be read, or can never fire.

    `text` is the rule as given; `position` is the index of the first wrong character, or None when
    the whole rule is wrong.
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message, field="recurrence")
        self.text = text
        self.position = position

    def pointed(self) -> str:
        """The message, the line at fault, and a caret under the position, for a terminal."""
        if self.position is None:
            return f"{self}\n  {self.text}"
        begin = self.text.rfind("\n", 0, self.position) + 1
        line = self.text[begin:].partition("\n")[0].rstrip("\r")
        return f"{self}\n  {line}\n  {' ' * (self.position - begin)}^"


class TooCostly(BadRecurrence):
    """Finding the rule's occurrences takes more than `steps` steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(
            f"too costly: it takes more than {steps:,} steps to find the occurrences; name the"
            " times to keep (BYHOUR, BYMINUTE, …) instead of excluding the others, leave out"
            " COUNT, or ask for fewer occurrences"
        )
        self.steps = steps


class Malformed(Invalid):
    """The request is not of the right form: broken JSON, a wrong type or a bad id."""


class TooLarge(Invalid):
    """The request is over a named limit."""


class Unauthorized(OnbeatError):
    """No API key was given, or it is not known; send `Authorization: Bearer KEY`."""


class Forbidden(OnbeatError):
    """This is not allowed here."""


class RateLimited(OnbeatError):
    """Too many requests of this kind; try again later.

    `retry_after` is in seconds.
    """

    def __init__(self, message: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(OnbeatError):
    """The store or broker did not answer; nothing was lost, try again."""


class Undecryptable(OnbeatError):
    """No key of `secrets.keys` decrypts it."""


class Misconfigured(OnbeatError):
    """A setting is invalid. `key` is its key in the configuration file."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key
