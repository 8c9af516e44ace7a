"""`infer init --database`: proposes how to map the images of a database and writes that into infer.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import SecretStr

from infer_app.cli.project.project import TEMPLATE, write_config
from infer_app.cli.terminal.output import show_table
from infer_app.database.engine.connect import Database
from infer_app.database.listing.propose_mapping import FOLDER, Proposal, TimeColumn, propose
from infer_app.errors import DatabaseUnavailable
from infer_app.locations import is_remote, storage_of
from infer_app.settings.load import DEFAULT_CONFIG, LoadedSettings, variable
from infer_app.settings.masks import has_password
from infer_app.settings.sections import DatabaseSettings, SourceSettings
from infer_app.telemetry.printable import one_line

ASSUMED_ZONE = "UTC"


def init_from(results: str | None, source: str | None = None, folder: Path | None = None) -> Path:
    """Read the tables of the database `source`, or else of `results`, and write infer.toml. Return its path.

    The database is not changed. Raises UsageError for an invalid URL and DatabaseUnavailable if there is no answer.
    """
    path = (folder or Path()) / DEFAULT_CONFIG
    given = {"database.url": results, "source.database_url": source}
    database_settings = DatabaseSettings() if results is None else DatabaseSettings(url=SecretStr(results))
    source_settings = SourceSettings(database_url=None if source is None else SecretStr(source))
    loaded = LoadedSettings.model_construct(path=path.absolute(), database=database_settings, source=source_settings)
    urls = {"database.url": loaded.database_url, "source.database_url": loaded.source_url}
    secret = [key for key, url in given.items() if url is not None and has_password(urls[key])]
    with Database(loaded.source_url, read_only=True) as database:
        file = database.sqlite_file
        if file is not None and not file.exists():
            raise DatabaseUnavailable(f"{database.shown_url} does not exist", "name the one that lists your images")
        proposals = propose(database)
    if proposals:
        _show(proposals[0])
    else:
        print(
            f"{database.shown_url}: no table or view has image locations, an id and a time; fill in [source] yourself"
        )
    if others := [proposal.table for proposal in proposals[1:]]:
        print(f"it could also be: {', '.join(others)}")
    written = write_config(folder, _settings(given, proposals[0] if proposals else None), 0o600 if secret else 0o666)
    if secret:
        variables = " and ".join(variable(key) for key in secret)
        print(f"it holds the password and only you may read it; or leave the url out and set {variables}")
    print("next: `infer db upgrade` makes the tables for results, all named infer_…; `infer doctor` checks the rest")
    return written


def _show(proposal: Proposal) -> None:
    mapping = (("id", proposal.id), ("location", proposal.location), ("time", proposal.time.name))
    print(f"[source] table = {proposal.table!r}, " + ", ".join(f"{key} = {name!r}" for key, name in mapping))
    show_table(("id", "location", "time"), proposal.samples, "for example")
    for time in (proposal.time, *proposal.other_times):
        print(f"{time.name}: {_about_zone(time)}")
    if proposal.folder is None:
        print(_about_folders(proposal))
    if proposal.index:
        print(f"a day is found by reading the whole table; faster with\n  {proposal.index}")


def _about_folders(proposal: Proposal) -> str:
    odd = proposal.not_local
    if odd is None:
        return "locations have no folder in common: name those that may be read in [images] roots"
    if is_remote(odd):
        return f'locations are URLs: name the places that may be read in [remote] allow = ["{storage_of(odd)}/"]'
    return (
        f"locations such as {one_line(odd)} are no absolute paths, which a run needs: put their folder before each,"
        f" here {FOLDER}\n  [source] query = '''{proposal.query}'''\n  [images] roots = [\"{FOLDER}\"]"
    )


def _about_zone(time: TimeColumn) -> str:
    if time.has_zone:
        return "each value has a time zone or is a date"
    return f"times without a zone, assumed to be {ASSUMED_ZONE}; if they are not, change [source] time_zone"


def _settings(given: Mapping[str, str | None], proposal: Proposal | None) -> str:
    """Return the template of infer.toml, comments included, with the given URLs and the proposal filled in."""
    document: Any = tomlkit.parse(TEMPLATE)
    for dotted, url in given.items():
        if url is not None:
            section, _, key = dotted.partition(".")
            document[section][key] = url
    if proposal is not None:
        source = {"table": proposal.table, "id": proposal.id, "location": proposal.location, "time": proposal.time.name}
        zone = {} if proposal.time.has_zone else {"time_zone": ASSUMED_ZONE}
        document["source"].update(source | zone)
        document["images"]["roots"] = [proposal.folder] if proposal.folder else []
    return tomlkit.dumps(document)
