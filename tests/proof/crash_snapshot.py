"""The database of a case: put back to where every case of a scene starts, and moved through time.

Time is moved by moving what the rows say of it: every timestamp of every table goes back by as much
as the clock shall have gone on. That is the same to whatever compares a row with the clock.
"""

from dataclasses import dataclass

import psycopg
from psycopg import sql

_TABLES = """
    SELECT c.table_name, array_agg(c.column_name::text ORDER BY c.ordinal_position),
           array_agg(c.column_name::text ORDER BY c.ordinal_position)
               FILTER (WHERE c.data_type = 'timestamp with time zone')
      FROM information_schema.columns c
      JOIN information_schema.tables t USING (table_schema, table_name)
     WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
       AND c.table_name <> 'schema_migrations' AND c.is_generated = 'NEVER'
     GROUP BY c.table_name
     ORDER BY c.table_name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    name: str
    columns: list[str]
    times: list[str]


@dataclass(slots=True)
class Snapshot:
    """All rows of the database that ``owner`` is connected to, kept in a schema of their own."""

    owner: psycopg.Connection
    _tables: list[_Table]

    @classmethod
    def of(cls, owner: psycopg.Connection) -> "Snapshot":
        """Return what can keep, put back and move the rows; nothing is kept yet."""
        tables = [
            _Table(name=name, columns=columns, times=times or [])
            for name, columns, times in owner.execute(_TABLES)
        ]
        # Rows are copied as they are, whatever refers to what.
        owner.execute("SET session_replication_role = replica")
        owner.execute("CREATE SCHEMA kept")
        owner.execute("CREATE TABLE kept.moment (at timestamptz)")
        for table in tables:
            owner.execute(
                sql.SQL("CREATE TABLE kept.{0} (LIKE public.{0})").format(
                    sql.Identifier(table.name)
                )
            )
        # Functions, since those are planned once.
        moved = [table for table in tables if table.times]
        for head, statements in (
            (sql.SQL("kept.restore()"), [_restoring(table) for table in tables]),
            (sql.SQL("kept.move(seconds float8)"), [_moving(table) for table in moved]),
        ):
            body = sql.SQL("BEGIN {}; END").format(sql.SQL("; ").join(statements))
            owner.execute(
                sql.SQL("CREATE FUNCTION {} RETURNS void LANGUAGE plpgsql AS {}").format(
                    head, sql.Literal(body.as_string(owner))
                )
            )
        return cls(owner, tables)

    def keep(self) -> None:
        """Keep the rows as they are now."""
        for table in self._tables:
            name = sql.Identifier(table.name)
            self.owner.execute(sql.SQL("TRUNCATE kept.{}").format(name))
            self.owner.execute(
                sql.SQL("INSERT INTO kept.{0} SELECT * FROM public.{0}").format(name)
            )
        self.owner.execute("DELETE FROM kept.moment")
        self.owner.execute("INSERT INTO kept.moment VALUES (clock_timestamp())")

    def restore(self) -> None:
        """Put the rows back, with every time as long ago as it was when they were kept."""
        self.owner.execute("SELECT kept.restore()")

    def move(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self.owner.execute("SELECT kept.move(%s)", [seconds])

    def vacuum(self) -> None:
        """Take away what the cases so far have left behind, before it makes the next ones slow."""
        for table in self._tables:
            self.owner.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table.name)))


def _restoring(table: _Table) -> sql.Composed:
    since = sql.SQL("(now() - (SELECT at FROM kept.moment))")
    values = [
        sql.SQL("{} + {}").format(sql.Identifier(column), since)
        if column in table.times
        else sql.Identifier(column)
        for column in table.columns
    ]
    return sql.SQL(
        "DELETE FROM public.{0}; INSERT INTO public.{0} ({1}) SELECT {2} FROM kept.{0}"
    ).format(
        sql.Identifier(table.name),
        sql.SQL(", ").join(map(sql.Identifier, table.columns)),
        sql.SQL(", ").join(values),
    )


def _moving(table: _Table) -> sql.Composed:
    seconds = sql.SQL("seconds * interval '1 second'")
    moves = [
        sql.SQL("{0} = {0} - {1}").format(sql.Identifier(column), seconds) for column in table.times
    ]
    return sql.SQL("UPDATE public.{} SET {}").format(
        sql.Identifier(table.name), sql.SQL(", ").join(moves)
    )
