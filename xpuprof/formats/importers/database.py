# SPDX-License-Identifier: Apache-2.0
"""SQLite files of other tools: plain tables only, checked types, bounded work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn

from xpuprof.inputs import LONGEST_LINE, Source

STEP = 100_000
"""SQLite virtual machine instructions between two checks of their number."""
LEAST_WORK, WORK = 400_000_000, 100
"""Limits of instructions per file and per byte; real recordings take up to about 10 per byte. A
join of rows that all share one correlation id would take days."""
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Column:
    """The type of a column: integers from `low` to `high`, or text."""

    name: str
    low: int = SMALLEST
    high: int = LARGEST
    kind: str = "integer"
    null: bool = False

    @property
    def condition(self) -> str:
        """SQL that is true for a valid value."""
        good = f"typeof({self.name}) = '{self.kind}'"
        if self.kind == "integer" and (self.low, self.high) != (SMALLEST, LARGEST):
            good += f" AND {self.name} BETWEEN {self.low} AND {self.high}"
        return f"({good}{f' OR {self.name} IS NULL' if self.null else ''})"


class Database:
    """A SQLite file of a `kind`, opened for reading. Every error is an InputError with `remedy`."""

    def __init__(self, source: Source, kind: str, remedy: str) -> None:
        self.source = source
        self._kind = kind
        self._remedy = remedy
        self._work = max(LEAST_WORK, WORK * source.size) // STEP

    def __enter__(self) -> Database:
        import sqlite3  # completion lists formats without it

        uri = f"{self.source.path.resolve().as_uri()}?mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(uri, uri=True)
        except sqlite3.Error as error:
            self._refuse(error)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection.set_progress_handler(self._is_too_much, STEP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._connection.close()

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of the plain tables. Views and virtual tables may compute endless rows."""
        rows = self.rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        return frozenset(
            name
            for name, sql in rows
            if isinstance(name, str) and isinstance(sql, str) and "VIRTUAL" not in sql.upper()[:20]
        )

    def columns(self, table: str) -> frozenset[str]:
        """Column names of a table. Raises InputError when a column is computed."""
        rows = list(self.rows(f"PRAGMA table_xinfo('{table}')"))
        if computed := [row[1] for row in rows if row[6]]:
            self.source.refuse(f"computes column {computed[0]!r} of {table}; {self._advice}")
        return frozenset(row[1] for row in rows)

    def check(self, table: str, columns: Sequence[Column], where: str = "1") -> None:
        """Reject a table with an invalid value. A missing table, or a missing column that may be
        null, is accepted; a view is not."""
        if table not in self.tables:
            if next(self.rows(f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"), None):
                self.source.refuse(f"has {table}, which is not a plain table; {self._advice}")
            return
        present = self.columns(table)
        for column in columns:
            if column.name not in present and not column.null:
                self.source.refuse(f"has no column {column.name} in {table}; {self._advice}")
        stated = [column for column in columns if column.name in present]
        good = " AND ".join(column.condition for column in stated)
        query = f'SELECT rowid FROM "{table}" WHERE {where} AND NOT ({good}) LIMIT 1'
        for row in self.rows(query):
            self._refuse_row(table, stated, row[0])

    def _refuse_row(self, table: str, columns: Sequence[Column], rowid: int) -> NoReturn:
        for column in columns:
            query = f'SELECT {column.condition} FROM "{table}" WHERE rowid = {rowid}'
            if not next(self.rows(query), (1,))[0]:
                self.source.refuse(
                    f"is damaged: {column.name} in row {rowid} of {table} is not a valid "
                    f"{column.kind}; {self._advice}"
                )
        # The rows of a damaged tree are not where a search expects them.
        self.source.refuse(f"is damaged: row {rowid} of {table} is out of place; {self._advice}")

    def names(self, query: str) -> dict[int, str]:
        """{number: text} from a query for both; null becomes ""."""
        found: dict[int, str] = {}
        for number, text in self.rows(query):
            self.source.hold_name(text or "")
            found[number] = text or ""
        return found

    def rows(self, query: str, arguments: Sequence[object] = ()) -> Iterator[Any]:
        """Yield the rows of a query."""
        import sqlite3

        try:
            # `yield from` would close the cursor, which fails if the database was closed before.
            for row in self._connection.execute(query, arguments):  # noqa: UP028
                yield row
        except (sqlite3.Error, OverflowError, MemoryError, UnicodeDecodeError) as error:
            self._refuse(error)

    @property
    def _advice(self) -> str:
        return f"make it again with {self._remedy}"

    def _is_too_much(self) -> bool:
        self._work -= 1
        return self._work < 0

    def _refuse(self, error: Exception) -> None:
        reason = str(error)
        if self._work < 0:
            reason = "its rows have too many cross-references, as in a damaged file"
        self.source.refuse(f"is not a readable {self._kind} ({reason}); {self._advice}")
