"""How a version of a model is named: NAME, NAME@ID or ID, where ID may be the beginning of a model id."""

from collections.abc import Iterable

from infer_app.base.errors import UsageError

SHORTEST_ID = 4  # characters of an id that name a version
SHOWN_ID = 8  # characters of an id in messages

Version = tuple[str, str]  # name, model id


def versions_named(wanted: str, known: Iterable[Version]) -> list[Version]:
    """Return the known versions that `wanted` names, in their order: all of a NAME, or one by NAME@ID or ID.

    A version with two names is found under both by its ID alone. Raises UsageError for an id that is too short or that
    fits several versions.
    """
    known = list(known)
    name, at, beginning = wanted.partition("@")
    of_name = [version for version in known if version[0] == name]
    if not at and of_name:
        return of_name
    among, start = (of_name, beginning) if at else (known, name)
    if exact := [version for version in among if version[1] == start]:
        return exact
    if len(start) < SHORTEST_ID:
        if at:
            shortest = f"{wanted!r}: an id needs at least {SHORTEST_ID} characters"
            raise UsageError(shortest, "`infer model list` prints the ids")
        return []
    found = [version for version in among if version[1].startswith(start)]
    if len({model_id for _, model_id in found}) > 1:
        fitting = ", ".join(f"{found_name}@{model_id}" for found_name, model_id in found)
        raise UsageError(f"{wanted!r} fits several versions: {fitting}", "give more characters of the id")
    return found


def plain_name(wanted: str) -> str:
    """Return the NAME of NAME@ID."""
    return wanted.partition("@")[0]


def short_name(name: str, model_id: str) -> str:
    """Return NAME@ID as messages and printed commands have it, with the beginning of the id."""
    return f"{name}@{model_id[:SHOWN_ID]}"
