"""Events: pictures of one camera that follow each other within a gap; the number of the first one is the event's.

A picture that changes or goes lets the pictures of its event wait for one, which `place_events` gives them.
"""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, select, update

from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.results.schema import WITHOUT_CAMERA, WITHOUT_EVENT, pictures, project_table


def lock_events(connection: Connection) -> None:
    """Wait for other changes of events, until the transaction ends; SQLite has one writer at a time."""
    connection.execute(select(project_table).with_for_update()).close()


def dissolve_events(connection: Connection, numbers: Iterable[int]) -> None:
    """Let all pictures of the events of these pictures, which change or go, wait for an event; their copies too."""
    for some in in_batches(numbers):
        lock_events(connection)
        # Of now: MariaDB would read what was there at the first read of the transaction.
        known = select(pictures.c.event).where(pictures.c.id.in_(some), pictures.c.event > WITHOUT_EVENT)
        if found := set(connection.scalars(known.with_for_update())):
            let_wait(connection, pictures.c.event.in_(found))
        free_copies(connection, some)


def free_copies(connection: Connection, numbers: Iterable[int]) -> None:
    """Let the copies of these pictures, which change or go or lose results, wait for an event."""
    for some in in_batches(numbers):
        lock_events(connection)
        let_wait(connection, pictures.c.copy_of.in_(some))


def let_wait(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Let pictures that have an event or are copies, by default all, wait; the caller has called `lock_events`."""
    wanted = pictures.c.event.not_in((WITHOUT_CAMERA, WITHOUT_EVENT)), *conditions
    connection.execute(update(pictures).where(*wanted).values(event=WITHOUT_EVENT))
