"""The picture in the terminal, and keys that act on the chosen row."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeVar, cast

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from onbeat.app.backend import Backend
from onbeat.cli.pulse import BARS, GAP
from onbeat.cli.times import local_now, zone_name
from onbeat.cli.top import details
from onbeat.cli.top.dialogs import HELP, Question, TextDialog
from onbeat.cli.top.follower import EVERY, Follower
from onbeat.cli.top.panel import STYLES, Panel
from onbeat.cli.top.records import FailureLine, Picture, QueueLine
from onbeat.cli.top.words import (
    MARKS,
    Rows,
    Tile,
    Tone,
    moment,
    one_line,
    sparks,
    tables,
    tiles,
    verdict,
)
from onbeat.dashboard.formats import duration, number
from onbeat.model.errors import OnbeatError

PANELS: Final = ("queues", "failures", "workers", "fires")
TILES: Final = 6
WIDE: Final = 110
TALL: Final = 34
SPARK_WORDS: Final = 30
"""Columns beside the bars: the name and the highest value."""
DIM: Final = STYLES["dim"]
TONES: Final[tuple[Tone, ...]] = ("ok", "fail")
NOTHING: Final = GAP + BARS[0]
Value = TypeVar("Value")


class PictureScreen(Screen[None]):
    """All of the picture where there is room for four tables, else one of them at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right", "turn(1)", "Next table", key_display="tab", priority=True),
        Binding("shift+tab,left", "turn(-1)", "Back", show=False, priority=True),
        Binding("p", "switch_queue", "Pause/resume"),
        Binding("r", "replay", "Replay"),
        Binding("v", "troubles", "Verdict"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, name: str, follower: Follower) -> None:
        super().__init__()
        self.source = name
        self.follower = follower
        self.picture: Picture | None = None
        self.turned = 0

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static("Asking …", id="verdict")
        yield Horizontal(*(Static(classes="tile") for _ in range(TILES)), id="tiles")
        yield Static(id="sparks")
        yield Static(id="names")
        yield Container(*(Panel(name) for name in PANELS), id="panels")
        yield Footer()

    def on_mount(self) -> None:
        self.turn_to(0)

    @property
    def terminal(self) -> App[None]:
        return cast("App[None]", self.app)  # pyright: ignore[reportUnknownMemberType]

    # What is shown

    def show(self, picture: Picture) -> None:
        first = self.picture is None
        self.picture = picture
        self.remove_class("away")
        how = "live" if self.follower.is_streamed else f"every {EVERY:g} s"
        self.show_head(Text(f"● {how}", STYLES["ok"]))
        self.show_verdict(picture)
        for place, tile in enumerate(tiles(picture)):
            self.tile(place).update(tile_text(tile))
        self.show_sparks()
        for rows, panel in zip(tables(picture, None), self.panels, strict=True):
            panel.fill(rows)
        self.show_names()
        if first:
            self.refresh_bindings()

    def show_away(self, error: OnbeatError) -> None:
        """The last picture stays, with its time."""
        self.add_class("away")
        self.show_head(Text("○ away", STYLES["fail"]))
        words = Text.assemble(
            (f"{MARKS['fail']} No answer: {one_line(str(error))}", f"bold {STYLES['fail']}"), "\n"
        )
        again = f"It is tried every {EVERY:g} s."
        if self.picture is not None:
            at, now = self.picture.at, local_now()
            again = f"Shown as of {moment(at, now, None)}, {duration(now - at)} ago. {again}"
        self.query_one("#verdict", Static).update(words.append(f"  {again}"))

    def show_head(self, state: Text) -> None:
        now = local_now() if self.picture is None else self.picture.at
        there = now.astimezone()
        left = Text.assemble(("onbeat", "bold #93a4ff"), f"  {one_line(self.source)}")
        right = Text.assemble(f"{there:%H:%M:%S} {zone_name(there)}  ", state)
        left.truncate(max(0, self.size.width - right.cell_len - 4), overflow="ellipsis", pad=True)
        self.query_one("#head", Static).update(Text.assemble(left, "  ", right))

    def show_verdict(self, picture: Picture) -> None:
        head, detail = verdict(picture, None)
        first = (f"{MARKS[head.tone]} {head.text}", f"bold {STYLES[head.tone]}")
        words = Text.assemble(first, (f"\n  {detail.text}", DIM))
        self.query_one("#verdict", Static).update(words)

    def show_sparks(self) -> None:
        if self.picture is None:
            return
        words = Text()
        found = sparks(self.picture.rates, self.size.width - SPARK_WORDS)
        for (name, bars, most), tone in zip(found, TONES, strict=True):
            style = STYLES[tone] if bars.strip(NOTHING) else DIM
            words.append(f"{name:<9}", DIM).append(bars, style).append(f"  {most}\n", DIM)
        words.rstrip()
        self.query_one("#sparks", Static).update(words)

    def show_names(self) -> None:
        """The tables by name, the shown one marked, where only one is shown."""
        words = Text()
        for place, panel in enumerate(self.panels):
            rows = panel.rows_shown
            count = "" if rows is None else f" {number(len(rows.rows))}"
            style = "bold reverse #93a4ff" if place == self.turned else DIM
            words.append(f" {name_of(rows, panel)}{count} ", style).append(" ")
        shown = self.panels[self.turned].rows_shown
        if shown is not None and not shown.rows:
            words.append(f"  {shown.empty}", DIM)
        self.query_one("#names", Static).update(words)

    def tile(self, place: int) -> Static:
        return list(self.query(".tile").results(Static))[place]

    @property
    def panels(self) -> list[Panel]:
        return [self.query_one(f"#{name}", Panel) for name in PANELS]

    def on_resize(self, event: Resize) -> None:
        is_wide = event.size.width >= WIDE and event.size.height >= TALL
        self.set_class(is_wide, "wide")
        self.show_sparks()

    # Keys

    def action_turn(self, step: int) -> None:
        self.turn_to((self.turned + step) % len(PANELS))

    def turn_to(self, place: int) -> None:
        self.turned = place
        for number_of, panel in enumerate(self.panels):
            panel.set_class(number_of == place, "turned")
        self.panels[place].focus()
        self.show_names()
        self.refresh_bindings()

    def on_descendant_focus(self) -> None:
        """A click chooses a table too."""
        focused = self.focused
        if isinstance(focused, Panel) and focused.id in PANELS:
            place = PANELS.index(focused.id)
            if place != self.turned:
                self.turn_to(place)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that change something are there where the key may, and where they have a row."""
        if action == "switch_queue":
            return self.follower.may_change and PANELS[self.turned] == "queues"
        if action == "replay":
            return self.follower.may_change and PANELS[self.turned] == "failures"
        return True

    def action_help(self) -> None:
        self.terminal.push_screen(TextDialog("Keys", HELP))

    def action_troubles(self) -> None:
        if self.picture is not None:
            self.terminal.push_screen(
                TextDialog("Worst first", details.trouble_details(self.picture, None))
            )

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        self.show_details()

    @work(exclusive=True)
    async def show_details(self) -> None:
        picture, place, key = self.picture, PANELS[self.turned], self.panels[self.turned].chosen
        if picture is None or key is None:
            return
        text = await self.tell(lambda backend: details_of(backend, picture, place, key))
        if text is not None:
            self.terminal.push_screen(TextDialog("Details", text))

    @work(exclusive=True)
    async def action_switch_queue(self) -> None:
        queue = self.chosen_queue()
        if queue is None:
            return
        what = "Resume" if queue.paused else "Pause"
        if await self.terminal.push_screen_wait(
            Question(f"{what} the queue {one_line(queue.name)}?")
        ):
            done = await self.tell(lambda backend: details.switch_queue(backend, queue))
            self.say(done)

    @work(exclusive=True)
    async def action_replay(self) -> None:
        failure = self.chosen_failure()
        if failure is None:
            return
        counted = await self.tell(lambda backend: details.count_replay(backend, failure.fault))
        if counted is None:
            return
        if not counted.done:
            self.say("No job of this failure can be retried.")
            return
        if await self.terminal.push_screen_wait(
            Question(details.replay_question(counted, failure))
        ):
            done = await self.tell(lambda backend: details.start_replay(backend, failure.fault))
            self.say(None if done is None else details.replayed_words(done))

    def chosen_queue(self) -> QueueLine | None:
        key, queues = self.panels[0].chosen, () if self.picture is None else self.picture.queues
        return next((queue for queue in queues if queue.name == key), None)

    def chosen_failure(self) -> FailureLine | None:
        key, found = self.panels[1].chosen, () if self.picture is None else self.picture.failures
        return next((one for one in found if one.fault == key), None)

    def say(self, done: str | None) -> None:
        if done is not None:
            self.terminal.notify(one_line(done), markup=False)
            self.follower.look_again()

    async def tell(self, ask: Callable[[Backend], Awaitable[Value]]) -> Value | None:
        """What is answered; an error is told, and None."""
        backend = self.follower.backend
        if backend is None:
            self.terminal.notify("There is no answer yet; try again.", severity="warning")
            return None
        try:
            return await ask(backend)
        except OnbeatError as error:
            self.terminal.notify(one_line(str(error)), severity="error", markup=False)
            return None


def name_of(rows: Rows | None, panel: Panel) -> str:
    return str(panel.id).capitalize() if rows is None else rows.name


def tile_text(tile: Tile) -> Text:
    return Text.assemble(
        (f"{tile.name}\n", DIM),
        (f"{tile.value}\n", f"bold {STYLES[tile.tone]}"),
        (tile.note, DIM),
    )


async def details_of(backend: Backend, picture: Picture, place: str, key: str) -> str | None:
    """The details of the row of one table; None where it has gone."""
    now = picture.at
    if place == "failures":
        return await details.failure_details(backend, key, now, None)
    if place == "fires":
        return await details.fire_details(backend, key, now, None)
    if place == "queues":
        queue = next((one for one in picture.queues if one.name == key), None)
        return None if queue is None else await details.queue_details(backend, queue, now)
    worker = next((one for one in picture.workers if one.id == key), None)
    return None if worker is None else details.worker_details(worker, now)
