"""One table of the terminal. The chosen row stays chosen while the table changes."""

from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import DataTable

from onbeat.cli.top.words import Rows, Tone, widths

STYLES: Final[dict[Tone, str]] = {
    "ok": "#58c98a",
    "warn": "#eab04a",
    "fail": "#ff8278",
    "plain": "",
    "dim": "#8c95a6",
}
HEAD: Final = "bold #b3bbc9"
PADDING: Final = 2
SCROLLBAR: Final = 1


class Panel(DataTable[Text]):
    """Shows `Rows`, as wide as the panel is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Details"),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False)
        self.rows_shown: Rows | None = None
        self.layout_shown: tuple[object, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The key of the chosen row; None where there is no row."""
        rows = () if self.rows_shown is None else self.rows_shown.rows
        return rows[self.cursor_row].key if 0 <= self.cursor_row < len(rows) else None

    def fill(self, rows: Rows) -> None:
        kept, self.rows_shown = self.chosen, rows
        room = self.size.width - PADDING * len(rows.columns) - SCROLLBAR
        sizes, keys = widths(rows, room), tuple(row.key for row in rows.rows)
        self.border_title = Text(f"{rows.name} {len(keys):,}")
        self.border_subtitle = None if keys else Text(rows.empty)
        if self.layout_shown != (sizes, keys):
            self.layout_shown = sizes, keys
            self.rebuild(rows, sizes, kept)
            return
        for place, cells in enumerate(cells_of(rows, sizes)):
            for column, cell in enumerate(cells):
                old = self.get_row_at(place)[column]
                if old != cell or old.style != cell.style:
                    self.update_cell(keys[place], str(column), cell)

    def rebuild(self, rows: Rows, sizes: tuple[int, ...], kept: str | None) -> None:
        place, top = self.cursor_row, self.scroll_y
        self.clear(columns=True)
        for number, (column, size) in enumerate(zip(rows.columns, sizes, strict=True)):
            head = cut(column.name, size, HEAD, is_number=column.is_number)
            self.add_column(head, width=size, key=str(number))
        for row, cells in zip(rows.rows, cells_of(rows, sizes), strict=True):
            self.add_row(*cells, key=row.key)
        keys = [row.key for row in rows.rows]
        if kept in keys:
            place = keys.index(kept)
        self.move_cursor(row=min(place, max(0, len(keys) - 1)), scroll=False)
        self.scroll_to(y=top, animate=False)

    def on_resize(self, _event: Resize) -> None:
        if self.rows_shown is not None:
            self.fill(self.rows_shown)


def cells_of(rows: Rows, sizes: tuple[int, ...]) -> list[list[Text]]:
    return [
        [
            cut(text, sizes[place], STYLES[row.tone], is_number=rows.columns[place].is_number)
            for place, text in enumerate(row.cells)
        ]
        for row in rows.rows
    ]


def cut(text: str, size: int, style: str, *, is_number: bool) -> Text:
    shown = Text(text.rjust(size) if is_number else text, style=style, no_wrap=True)
    shown.truncate(size, overflow="ellipsis")
    return shown
