"""Numbers of pictures and objects, which are never given twice."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, bindparam, select, update

from infer_app.tables.results.schema import project_table


def next_numbers(connection: Connection, counter: str, count: int) -> range:
    """Return numbers by one of _COUNTERS, never given before; others wait for the transaction's end."""
    connection.execute(_GIVE[counter], {"count": count})
    last: int = connection.execute(_LAST[counter]).scalar_one()
    return range(last - count + 1, last + 1)


_COUNTERS = ("last_picture", "last_object")
_GIVE = {
    name: update(project_table).values({name: project_table.c[name] + bindparam("count", type_=BigInteger)})
    for name in _COUNTERS
}
_LAST = {name: select(project_table.c[name]) for name in _COUNTERS}


def last_numbers(connection: Connection) -> tuple[int, ...]:
    """Return the last numbers that were given, by _COUNTERS."""
    return tuple(connection.execute(select(*(project_table.c[name] for name in _COUNTERS))).one())


def raise_numbers(connection: Connection, numbers: Sequence[int]) -> None:
    """Give only numbers above these, by _COUNTERS, which were given before a backup was restored."""
    for name, number in zip(_COUNTERS, numbers, strict=False):
        column = project_table.c[name]
        connection.execute(update(project_table).where(column < number).values({name: number}))
