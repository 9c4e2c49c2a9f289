"""The terminal application: one screen, and a follower that brings its pictures."""

import asyncio
from typing import ClassVar, Final

from textual.app import App
from textual.binding import BindingType
from textual.theme import Theme

from onbeat.cli.top.follower import Connect, Follower
from onbeat.cli.top.records import Picture
from onbeat.cli.top.screen import PictureScreen
from onbeat.model.errors import OnbeatError

THEME: Final = Theme(
    name="onbeat",
    primary="#93a4ff",
    accent="#93a4ff",
    foreground="#e9ecf2",
    background="#0d1016",
    surface="#0d1016",
    panel="#151a22",
    success="#58c98a",
    warning="#eab04a",
    error="#ff8278",
    dark=True,
    variables={
        "footer-background": "#151a22",
        "block-cursor-background": "#22304f",
        "block-cursor-foreground": "#e9ecf2",
    },
)
CSS: Final = """
#head { height: 1; padding: 0 1; background: $panel; }
#verdict { height: 2; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
#tiles { height: 3; padding: 0 1; }
.tile { width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
#sparks { height: 2; padding: 0 1; text-wrap: nowrap; }
#names { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
#panels { height: 1fr; }
Panel { display: none; height: 1fr; background: $background; border-title-color: #8c95a6;
  border-subtitle-color: #8c95a6; scrollbar-size-vertical: 1; }
Panel.turned { display: block; }
Panel:focus { background-tint: $background 0%; }
Panel > .datatable--header { background: $background; }
Panel > .datatable--cursor { background: $background; }
Panel:focus > .datatable--cursor { background: #22304f; }
.wide #verdict { height: 3; padding: 1 1 0 1; }
.wide #tiles { height: 5; padding: 1; }
.wide #sparks { height: 3; }
.wide #names { display: none; }
.wide #panels { layout: grid; grid-size: 2 2; grid-gutter: 0 1; }
.wide Panel { display: block; border: round #29303c; }
.wide Panel:focus { border: round $primary; border-title-color: $primary; }
.away #tiles, .away #sparks, .away #panels { opacity: 60%; }
Question, TextDialog { align: center middle; }
.dialog { background: $panel; border: round $primary; padding: 1 2; width: auto; max-width: 90%;
  height: auto; max-height: 90%; }
TextDialog .dialog { width: 90%; max-width: 110; }
#message { width: 100%; height: auto; }
"""


class TopApp(App[None]):
    """Watches what `connect` opens, whose `name` people know."""

    CSS = CSS
    TITLE = "onbeat top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, name: str, connect: Connect) -> None:
        super().__init__()
        self.register_theme(THEME)
        self.theme = THEME.name
        self.error: OnbeatError | None = None
        self.following: asyncio.Task[None] | None = None
        self.follower = Follower(connect, self.show_picture, self.show_away)
        self.front = PictureScreen(name, self.follower)

    def show_until_quit(self) -> None:
        """Raises the `OnbeatError` that ended it, such as that of a wrong key."""
        self.run()
        if self.error is not None:
            raise self.error

    def on_mount(self) -> None:
        self.push_screen(self.front)
        self.following = asyncio.create_task(self.follow())

    async def on_unmount(self) -> None:
        """What the follower has open is closed before the terminal is given back."""
        if self.following is not None:
            self.following.cancel()
            await asyncio.wait((self.following,))

    async def follow(self) -> None:
        try:
            await self.follower.run()
        except OnbeatError as error:
            self.error = error
            self.exit()

    def show_picture(self, picture: Picture) -> None:
        self.front.show(picture)

    def show_away(self, error: OnbeatError) -> None:
        self.front.show_away(error)
