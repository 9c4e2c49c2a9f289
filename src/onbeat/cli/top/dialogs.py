"""A question before something changes, and texts that cover the picture."""

from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

HELP: Final = """\
tab, shift+tab   the next table and the one before; arrows too
up, down         the next row and the one before
enter            more of the row: why a job waits, a whole error
v                all that is wrong, the worst first
p                pause the chosen queue, or resume it
r                retry the failed jobs of the chosen failure
?                this list
q                quit

p and r ask first, and are there only if your key may do so. Rates are those of the \
last minute; bars are the last hour, the newest at the right, and a blank is a time in \
which nothing was measured. Times are in the zone of this machine."""


class Question(ModalScreen[bool]):
    """Answers whether to do it; escape is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        yield Static(Text(self.question), id="question", classes="dialog")
        yield Footer()

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001  the form of actions
        self.dismiss(yes)


class TextDialog(ModalScreen[None]):
    """A text that can be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "close", "Close"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.heading = title
        self.text = text

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static(Text(self.text), id="message"), classes="dialog")
        box.border_title = Text(self.heading)
        yield box
        yield Footer()

    def action_close(self) -> None:
        self.dismiss(None)
