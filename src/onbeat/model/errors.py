"""Every error that Onbeat raises itself; work that fails is an outcome, not one of these.

OnbeatError
  NotFound          nothing has this id
  Conflict          it exists already, or changed under the caller
    LeaseLost       another worker holds this job now
  Invalid           the request cannot be right; says which field and what would be right
    BadRecurrence   a rule that cannot be read, or can never fire; says where
    Malformed       not even of the right type: broken JSON, a number for a text, a bad id
    TooLarge        over a named limit
  Unauthorized      no key, or an unknown one
  Forbidden         known, and not allowed
  Unavailable       a store or broker did not answer; worth another try
  Misconfigured     a setting is impossible; says which key
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


class Invalid(OnbeatError):
    """The request cannot be right.

    `field` is the dotted path of the field at fault, or "" when no single field is. `detail` is the
    reason in full where `message` has to be short.
    """

    def __init__(self, message: str, field: str = "", detail: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.detail = detail


class BadRecurrence(Invalid, ValueError):
    """A rule that cannot be read, or can never fire.

    `text` is the rule as given; `position` is the index of the first character at fault, or None
    when the rule as a whole is.
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message, field="recurrence")
        self.text = text
        self.position = position

    def pointed(self) -> str:
        """The message, and below it the rule with a caret under the fault, for a terminal."""
        if self.position is None:
            return f"{self}\n  {self.text}"
        return f"{self}\n  {self.text}\n  {' ' * self.position}^"


class Malformed(Invalid):
    """The request is not of the right form: broken JSON, a wrong type or a bad id."""


class TooLarge(Invalid):
    """The request is over a named limit."""


class Unauthorized(OnbeatError):
    """No API key was given, or it is not known; send `Authorization: Bearer KEY`."""


class Forbidden(OnbeatError):
    """This is not allowed here."""


class Unavailable(OnbeatError):
    """The store or broker did not answer; nothing was lost, try again."""


class Misconfigured(OnbeatError):
    """A setting is impossible. `key` names it as the configuration file does."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key
