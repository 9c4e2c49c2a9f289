"""The differences between SQL dialects, for statements that are written once.

Such a statement has `?` for each value, and `onbeat.` before the name of each table.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

Value = None | int | float | str | bytes
Argument = Value | tuple[Value, ...]
"""A value, or the list of values for `in_list`."""
Row = tuple[Any, ...]
Kind = Literal["uuid", "text", "bytea", "boolean", "smallint", "integer", "bigint"]
Columns = Mapping[str, Kind]
"""Names and types of columns, in the order of the values of a row."""
TABLE: Final = re.compile(r"\bonbeat\.(\w+)")
PARAMS: Final = re.compile(r"\bparams\.(\w+)")


class Dialect(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`mark` is the placeholder, with `{number}` if numbered; `tables` maps renamed tables.

    `named_indexes` need a hint, as the planner may choose another index. `is_running` is the
    condition for running jobs that matches their index, `start_by` the column by which an index
    orders the waiting ones. `for_update` ends a SELECT that locks its rows, `for_share` one that
    only keeps others from changing them, `skip_locked` one that also skips rows locked by others.
    `unless_taken` ends an INSERT that skips rows with a key in use. `set_lease` makes a lease
    a timed one.
    """

    mark: str
    is_running: str
    is_waiting: str
    start_by: str = "start_by"
    for_update: str = "FOR UPDATE"
    for_share: str = "FOR SHARE"
    skip_locked: str = "FOR UPDATE SKIP LOCKED"
    unless_taken: str = "ON CONFLICT DO NOTHING"
    set_lease: str = "lease_until = ?"
    prefix: str = ""
    tables: Mapping[str, str] = {}
    named_indexes: frozenset[str] = frozenset()

    def table(self, name: str) -> str:
        return self.tables.get(name, self.prefix + name)

    def text(self, sql: str) -> str:
        """The statement in the form that the driver accepts."""
        first, *rest = TABLE.sub(lambda result: self.table(result[1]), sql).split("?")
        marked = (self.mark.format(number=number) + part for number, part in enumerate(rest, 1))
        return first + "".join(marked)

    def in_list(self, column: str, kind: Kind) -> str:
        """The condition that the column is in a list of values, which may be empty."""
        value = "unhex(value)" if kind == "bytea" else "value"
        return f"{column} IN (SELECT {value} FROM json_each(?))"  # noqa: S608  values are bound

    def remainder(self, number: str, divisor: int) -> str:
        return f"({number}) % {divisor:d}"

    def in_json(self, value: str) -> str:
        """Bytes as a value that `Session.select` can return: JSON has only text."""
        return f"lower(hex({value}))"

    def read_bytes(self, value: Any) -> bytes:
        """The bytes that `in_json` stands for."""
        return bytes.fromhex(value)

    def insert(self, table: str, columns: Columns, ending: str) -> str:
        """The INSERT of `Session.insert_rows`. SQLite pads rows with NULLs, which this skips."""
        chosen = "SELECT * FROM :rows WHERE column1 IS NOT NULL"
        return f"INSERT INTO onbeat.{table} ({', '.join(columns)}) {chosen} {ending}"

    def delete_each(self, table: str, key: Columns) -> str:
        """The DELETE of `Session.delete_rows`."""
        values = ", ".join(f"column{number}" for number, _ in enumerate(key, 1))
        chosen = f"SELECT {values} FROM :rows WHERE column1 IS NOT NULL"  # noqa: S608  as above
        return f"DELETE FROM onbeat.{table} WHERE ({', '.join(key)}) IN ({chosen})"  # noqa: S608  as above

    def update_each(self, table: str, key: Columns, columns: Columns) -> str:
        """The UPDATE of `Session.update_rows`."""
        names = {name: f"column{number}" for number, name in enumerate((*key, *columns), 1)}
        changes = ", ".join(f"{column} = {names[column]}" for column in columns)
        condition = " AND ".join(f"{column} = {names[column]}" for column in key)
        return f"UPDATE onbeat.{table} SET {changes} FROM :rows WHERE {condition}"  # noqa: S608  as above

    def use_index(self, name: str) -> str:
        """The index hint after the table name of a SELECT; may be empty."""
        return f"INDEXED BY {self.prefix}{name}" if name in self.named_indexes else ""

    def of_null(self, column: str) -> str:
        """The start of an order by an index, of rows where the column is NULL.

        Most planners do not see that these have one value there.
        """
        return f"{column} DESC, "

    def delete_from(self, table: str, index: str = "PRIMARY") -> str:
        """The start of a DELETE that finds its rows by this index."""
        return f"DELETE FROM onbeat.{table}"  # noqa: S608  a name of our own

    def contains(self, column: str) -> str:
        """The condition that the text in the column contains a value."""
        return f"instr({column}, ?) > 0"

    def contains_folded(self, column: str) -> str:
        """The same without the case of letters; the value's letters from A to Z are lower."""
        return self.contains(f"lower({column})")

    def rewrite(self, column: str) -> str:
        """An assignment that rewrites a row without changing it."""
        return f"{column} = {column}"

    def unless_there(self, *key: str) -> str:
        """The end of an INSERT that keeps an existing row with the same key."""
        return f"ON CONFLICT ({', '.join(key)}) DO NOTHING"

    def or_change(self, key: str, columns: Sequence[str]) -> str:
        """The end of an INSERT that updates these columns of an existing row with the same key."""
        changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
        return f"ON CONFLICT ({key}) DO UPDATE SET {changes}"

    def delete_first(self, table: str, key: str, where: str, order: str) -> str:
        """A DELETE of the first rows by `order`; the last parameter is their number."""
        chosen = f"SELECT {key} FROM onbeat.{table} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608  values are bound
        return f"DELETE FROM onbeat.{table} WHERE {key} IN ({chosen})"  # noqa: S608  as above


class ServerDialect(Dialect, frozen=True, kw_only=True, eq=False):
    """Drivers of servers return bytes."""

    def in_json(self, value: str) -> str:
        return value

    def read_bytes(self, value: Any) -> bytes:
        return bytes(value)


class MysqlDialect(ServerDialect, frozen=True, kw_only=True, eq=False):
    """The dialect of MySQL and MariaDB."""

    def in_list(self, column: str, kind: Kind) -> str:
        return f"{column} IN ?"

    def remainder(self, number: str, divisor: int) -> str:
        """A function: the driver takes a percent sign for a value."""
        return f"MOD({number}, {divisor:d})"

    def insert(self, table: str, columns: Columns, ending: str) -> str:
        marks = ", ".join("?" * len(columns))
        return f"INSERT INTO onbeat.{table} ({', '.join(columns)}) VALUES ({marks}) {ending}"  # noqa: S608  as above

    def delete_each(self, table: str, key: Columns) -> str:
        """The last column of the key is in a list."""
        return f"{self.delete_from(table)} WHERE {self.has_key(key)}"

    def update_each(self, table: str, key: Columns, columns: Columns) -> str:
        """The values of the key come last, those of its last column as a list."""
        changes = ", ".join(f"{column} = ?" for column in columns)
        index = self.use_index("PRIMARY")
        return f"UPDATE onbeat.{table} {index} SET {changes} WHERE {self.has_key(key)}"  # noqa: S608  as above

    def has_key(self, key: Columns) -> str:
        *first, last = key
        return " AND ".join([*(f"{column} = ?" for column in first), f"{last} IN ?"])

    def use_index(self, name: str) -> str:
        return f"FORCE INDEX ({name})"

    def of_null(self, column: str) -> str:
        """With the column, MariaDB reads all of these rows and sorts them."""
        return ""

    def delete_from(self, table: str, index: str = "PRIMARY") -> str:
        return f"DELETE onbeat.{table} FROM onbeat.{table} {self.use_index(index)}"

    def rewrite(self, column: str) -> str:
        """Toggles a trailing space: the server skips rows that do not change."""
        return f"{column} = IF(RIGHT({column}, 1) = ' ', RTRIM({column}), CONCAT({column}, ' '))"

    def contains_folded(self, column: str) -> str:
        """The servers fold all letters, so those of the value too."""
        return f"instr(lower({column}), lower(?)) > 0"

    def unless_there(self, *key: str) -> str:
        return f"ON DUPLICATE KEY UPDATE {key[0]} = {key[0]}"

    def or_change(self, key: str, columns: Sequence[str]) -> str:
        changes = ", ".join(f"{column} = VALUES({column})" for column in columns)
        return f"ON DUPLICATE KEY UPDATE {changes}"

    def delete_first(self, table: str, key: str, where: str, order: str) -> str:
        return f"DELETE FROM onbeat.{table} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608  values are bound


class PostgresDialect(ServerDialect, frozen=True, kw_only=True, eq=False):
    def in_list(self, column: str, kind: Kind) -> str:
        return f"{column} = ANY(?::{kind}[])"

    def insert(self, table: str, columns: Columns, ending: str) -> str:
        """One array for each column; identities follow the order of the rows."""
        names = ", ".join(columns)
        arrays = ", ".join(f"?::{kind}[]" for kind in columns.values())
        return f"""
            INSERT INTO onbeat.{table} ({names})
            SELECT {names} FROM unnest({arrays}) WITH ORDINALITY AS new ({names}, place)
            ORDER BY place
            {ending}
        """  # noqa: S608  values are bound

    def delete_each(self, table: str, key: Columns) -> str:
        arrays = ", ".join(f"?::{kind}[]" for kind in key.values())
        condition = " AND ".join(f"{table}.{column} = gone.{column}" for column in key)
        return f"""
            DELETE FROM onbeat.{table}
            USING unnest({arrays}) AS gone ({", ".join(key)})
            WHERE {condition}
        """  # noqa: S608  values are bound

    def update_each(self, table: str, key: Columns, columns: Columns) -> str:
        arrays = ", ".join(f"?::{kind}[]" for kind in (*key.values(), *columns.values()))
        changes = ", ".join(f"{column} = changed.{column}" for column in columns)
        condition = " AND ".join(f"{table}.{column} = changed.{column}" for column in key)
        return f"""
            UPDATE onbeat.{table}
            SET {changes}
            FROM unnest({arrays}) AS changed ({", ".join((*key, *columns))})
            WHERE {condition}
        """  # noqa: S608  values are bound

    def select_each(self, columns: str, rest: str, values: Columns) -> str:
        """OFFSET keeps the planner from joining whole tables."""
        arrays = ", ".join(f"?::{kind}[]" for kind in values.values())
        return f"""
            SELECT found.*
            FROM unnest({arrays}) AS params ({", ".join(values)})
            CROSS JOIN LATERAL (SELECT {columns} {rest} OFFSET 0) AS found
        """  # noqa: S608  values are bound

    def contains(self, column: str) -> str:
        return f"strpos({column}, ?) > 0"

    def delete_first(self, table: str, key: str, where: str, order: str) -> str:
        """Selects by an array: otherwise the query planner may read the whole table."""
        chosen = f"SELECT {key} FROM onbeat.{table} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608  values are bound
        return f"DELETE FROM onbeat.{table} WHERE {key} = ANY(ARRAY({chosen}))"  # noqa: S608  as above


POSTGRES: Final = PostgresDialect(
    mark="${number}",
    is_running="running",
    is_waiting="NOT running",
    set_lease="lease_until = ?, timed = TRUE",
)
MYSQL: Final = MysqlDialect(
    mark="%s",
    is_running="worker IS NOT NULL",
    is_waiting="running = 0",
    start_by="bound_by",
    for_share="LOCK IN SHARE MODE",
    unless_taken="ON DUPLICATE KEY UPDATE id = id",
)
SQLITE: Final = Dialect(
    mark="?",
    is_running="state = 'running'",
    is_waiting="state = 'waiting'",
    for_update="",
    for_share="",
    skip_locked="",
    prefix="onbeat_",
    tables={"api_keys": "onbeat_keys"},
    named_indexes=frozenset(
        {
            "dispositions_by_age",
            "events_by_age",
            "events_unrouted",
            "finished_by_end",
            "finished_by_occurrence",
            "finished_by_schedule",
            "finished_of_fault",
            "jobs_by_occurrence",
            "jobs_due",
            "jobs_of_fault",
            "jobs_running",
            "jobs_stuck",
            "queues_watched",
            "schedules_due",
            "schedules_of_owner",
            "schedules_on_event",
        }
    ),
)


@cache
def translate(dialect: Dialect, sql: str) -> str:
    """Without indentation, since drivers read the whole text each time."""
    return "\n".join(line.strip() for line in dialect.text(sql).strip().splitlines())
