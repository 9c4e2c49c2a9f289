"""One picture as text, for scripts and for terminals without the extra."""

from datetime import tzinfo
from typing import Final

import click

from onbeat.cli.output import heading, plain, show_message, show_record, show_table
from onbeat.cli.top.records import Picture
from onbeat.cli.top.words import (
    MARKS,
    Rows,
    sparks,
    tables,
    tiles,
    trouble_lines,
    verdict,
)

COLUMNS: Final = 40


def show_picture(picture: Picture, zone: tzinfo | None = None) -> None:
    head, detail = verdict(picture, zone)
    show_message(f"{MARKS[head.tone]} {head.text}")
    show_message(f"  {detail.text}")
    for trouble in trouble_lines(picture.troubles[1:], picture.at, zone):
        show_message(f"{MARKS[trouble.tone]} {trouble.text}")
    click.echo()
    show_record({tile.name: plain(f"{tile.value}  {tile.note}".strip()) for tile in tiles(picture)})
    show_record(
        {name: f"{bars}  {plain(most)}" for name, bars, most in sparks(picture.rates, COLUMNS)}
    )
    for rows in tables(picture, zone):
        show_rows(rows)


def show_rows(rows: Rows) -> None:
    heading(rows.name)
    names = tuple(column.name.upper() for column in rows.columns)
    right = tuple(column.name.upper() for column in rows.columns if column.is_number)
    cells = [tuple(map(plain, row.cells)) for row in rows.rows]
    show_table(names, cells, empty=rows.empty, right=right, whole=())
