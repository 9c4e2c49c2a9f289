"""What is wrong with a template."""


class Broken(Exception):
    """A template that does not parse or cannot be filled in; `index` is the place in its text."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index
