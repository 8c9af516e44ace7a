"""`infer init --database`: proposes how to map the images of a database and writes that into infer.toml."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions
from pydantic import SecretStr

from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.locations import PathMapping, is_local, is_relative, storage_of
from infer_app.base.printing import one_line, printable
from infer_app.base.settings.load import DEFAULT_CONFIG, LoadedSettings
from infer_app.base.settings.masks import has_password, mask_url_text
from infer_app.base.settings.sections import DatabaseSettings, SourceSettings
from infer_app.base.settings.settings_sources import variable
from infer_app.cli.project.project import TEMPLATE, init, write_config
from infer_app.cli.terminal.output import show_table
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.local_files import local_path
from infer_app.predict.images.read.refusals import how_to_resolve
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.propose_mapping import Proposal, TimeColumn, propose

ASSUMED_ZONE = "UTC"
SEARCHED_DEPTH = 3  # of folders below the one that is searched for the files of relative locations
SEARCHED_FOLDERS = 2000
COMPARED = ("database", "source", "images")  # sections of an infer.toml that `infer init` fills in


def init_project(watch: Path | None, database: str | None, source: str | None) -> None:
    """Write an infer.toml: from the tables of a database, or for a folder of photos."""
    if watch and (database or source):
        raise UsageError("--watch is for photos in folders, --database and --source for a table that lists them")
    if database is None and source is None:
        init(photos=watch)
    else:
        init_from(database, source)


def init_from(results: str | None, source: str | None = None, folder: Path | None = None) -> Path:
    """Read the tables of the database `source`, or else of `results`, and write infer.toml. Return its path.

    The database is not changed. Raises UsageError for an invalid URL and beside an infer.toml that differs, and
    DatabaseUnavailable if there is no answer.
    """
    path = (folder or Path()) / DEFAULT_CONFIG
    given = {"database.url": results, "source.database_url": source}
    database_settings = DatabaseSettings() if results is None else DatabaseSettings(url=SecretStr(results))
    source_settings = SourceSettings(database_url=None if source is None else SecretStr(source))
    loaded = LoadedSettings.model_construct(path=path.absolute(), database=database_settings, source=source_settings)
    urls = {"database.url": loaded.database_url, "source.database_url": loaded.source_url}
    secret = [key for key, url in given.items() if url is not None and has_password(urls[key])]
    proposals, shown_url = _read_proposals(loaded)
    base = None
    if proposals:
        base = find_base([location for _, location, _ in proposals[0].samples], _search_from(path))
        _show(proposals[0], base, path.parent)
    else:
        print(f"{shown_url}: no table or view has image locations, an id and a time; fill in [source] yourself")
    if others := [proposal.table for proposal in proposals[1:]]:
        print(f"it could also be: {', '.join(others)}")
    settings = _settings(given, proposals[0] if proposals else None, _as_setting(base, path.parent))
    if path.exists():
        _compare(path, settings)
        return path
    return _write(folder, settings, secret)


def _read_proposals(loaded: LoadedSettings) -> tuple[list[Proposal], str]:
    """Return what the tables of the source could be, the most likely first, and its URL without the password."""
    with Database(loaded.source_url, read_only=True) as database:
        file = database.file
        if file is not None and not file.exists():
            raise DatabaseUnavailable(
                f"the file {file} does not exist",
                "name the one that lists your images; or, for photos in folders, `infer init` without --database,"
                " and the first `infer run` makes infer.db",
            )
        return propose(database), database.shown_url


def _write(folder: Path | None, settings: str, secret: Sequence[str]) -> Path:
    """Write infer.toml, readable by its owner alone if there are `secret` keys; return its path."""
    written = write_config(folder, settings, 0o600 if secret else 0o666)
    if secret:
        variables = " and ".join(variable(key) for key in secret)
        print(f"it holds the password and only you may read it; or leave the url out and set {variables}")
    print("next: `infer db upgrade` makes the tables for results, all named infer_…; `infer doctor` checks the rest")
    return written


def find_base(locations: Sequence[str], starts: Sequence[Path]) -> Path | None:
    """Return the folder, among `starts` and those below them, in which most of the relative locations are files."""
    relative = [one for one in locations if one and is_relative(one) and ".." not in one.split("/")]
    best, most = None, 0
    for folder in islice(_folders(starts), SEARCHED_FOLDERS) if relative else ():
        num_found = sum(os.path.isfile(f"{folder}/{one}") for one in relative)  # noqa: PTH113 - maybe no path
        if num_found > most:
            best, most = folder, num_found
    return best


def _folders(starts: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders and those below them down to SEARCHED_DEPTH, the upper ones first, without hidden ones."""
    level = list(starts)
    for _ in range(SEARCHED_DEPTH + 1):
        yield from level
        level = [below for folder in level for below in _below(folder)]


def _below(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in entries if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def _search_from(config: Path) -> list[Path]:
    """Return the project's folder and the roots that a variable or an infer.toml of before names."""
    roots = [root for root in os.environ.get(variable("images.roots"), "").split(os.pathsep) if root]
    if config.exists():
        roots += _read(config).get("images", {}).get("roots", [])
    folder = config.absolute().parent
    return list(dict.fromkeys([folder, *(folder / Path(root).expanduser() for root in roots)]))


def _as_setting(base: Path | None, folder: Path) -> str | None:
    """Return the base as infer.toml has it: relative to its folder if it lies in there."""
    if base is None:
        return None
    folder = folder.absolute()
    return str(base.relative_to(folder)) if base.is_relative_to(folder) else str(base)


def _show(proposal: Proposal, base: Path | None, folder: Path) -> None:
    mapping = (("id", proposal.id), ("location", proposal.location), ("time", proposal.time.name))
    print(f"[source] table = {proposal.table!r}, " + ", ".join(f"{key} = {name!r}" for key, name in mapping))
    path_map = PathMapping(base="" if base is None else str(base))
    rows = [(*sample, *_look_for(sample[1], path_map)) for sample in proposal.samples]
    show_table(("id", "location", "time", "read as", ""), rows, "for example")
    for time in (proposal.time, *proposal.other_times):
        print(f"{time.name}: {_about_zone(time)}")
    if base is not None:
        print(f'locations are relative: [source] base = "{_as_setting(base, folder)}" is where their files were found')
        print("name the folder of the storage in [images] roots: a run then stops while it is away")
    elif proposal.folder is None:
        print(_about_folders(proposal))
    elif not any(row[-1] == "found" for row in rows):
        print("none of these files is here: is the storage mounted? if it lies elsewhere here, set [images] map")
    if proposal.index:
        print(f"a day is found by reading the whole table; faster with\n  {proposal.index}")


def _look_for(location: str, path_map: PathMapping) -> tuple[str, str]:
    """Return the path that is read for a location, and whether the file is there."""
    if not location:
        return "", "no location"
    if not is_local(location):
        return "", "not looked for"
    try:
        path = local_path(location, path_map)
        return one_line(path), "found" if Path(path).is_file() else "not found"
    except (BadImage, OSError, ValueError):  # a NUL in it, or a name that is too long
        return "", "not found"


def _about_folders(proposal: Proposal) -> str:
    odd = proposal.not_local
    if odd is None:
        return "locations have no folder in common: name those that may be read in [images] roots"
    if is_relative(odd):
        return (
            f"locations such as {one_line(odd)} are relative, and no folder here has their files: {how_to_resolve(odd)}"
        )
    return f'locations are URLs: name the places that may be read in [remote] allow = ["{storage_of(odd)}/"]'


def _about_zone(time: TimeColumn) -> str:
    if time.has_zone:
        return "each value has a time zone or is a date"
    return f"times without a zone, assumed to be {ASSUMED_ZONE}; if they are not, change [source] time_zone"


def _settings(given: Mapping[str, str | None], proposal: Proposal | None, base: str | None) -> str:
    """Return the template of infer.toml, comments included, with the given URLs and the proposal filled in."""
    document: Any = tomlkit.parse(TEMPLATE)
    for dotted, url in given.items():
        if url is not None:
            section, _, key = dotted.partition(".")
            document[section][key] = url
    if proposal is not None:
        source = {"table": proposal.table, "id": proposal.id, "location": proposal.location, "time": proposal.time.name}
        zone = {} if proposal.time.has_zone else {"time_zone": ASSUMED_ZONE}
        found = {} if base is None else {"base": base}
        document["source"].update(source | found | zone)
        document["images"]["roots"] = [proposal.folder] if proposal.folder else []
    return tomlkit.dumps(document)


def _compare(path: Path, settings: str) -> None:
    """Raise UsageError, after printing what differs, unless an infer.toml says what would be written."""
    differing = list(_differences(_read(path), tomlkit.parse(settings).unwrap()))
    if not differing:
        print(f"{path} exists and says the same: it was not changed")
        return
    print(f"{path} exists and was not changed. It differs from this proposal in")
    for section, key, now, proposed in differing:
        print(f"  [{section}]")
        print(f"    has       {_line(key, now)}")
        print(f"    proposed  {_line(key, proposed)}")
    raise UsageError(
        f"{path} exists and differs in {len(differing)} {'line' if len(differing) == 1 else 'lines'}, shown above",
        f"edit these lines; or move it away, {_move_away(path)}, and run this command again",
    )


def _differences(now: Any, proposed: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield (section, key, value, proposed value) where two infer.toml differ in what `infer init` fills in."""
    for section in COMPARED:
        has, wants = now.get(section, {}), proposed.get(section, {})
        keys = [*wants, *(key for key in has if section == "source" and key not in wants)]
        for key in keys:
            if has.get(key) != wants.get(key) and (has.get(key) or wants.get(key)):
                yield section, key, has.get(key), wants.get(key)


def _line(key: str, value: Any) -> str:
    if value is None:
        return f"no {key}"
    if key in ("url", "database_url"):
        value = mask_url_text(value)
    return printable(tomlkit.dumps({key: value}).strip())


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomlkit.parse(decode_text(path.read_bytes(), str(path))).unwrap()
    except (OSError, UsageError, tomlkit.exceptions.TOMLKitError) as error:
        hint = f"fix it; or move it away, {_move_away(path)}, and run this command again"
        raise UsageError(f"{path} exists and can't be read: {error}", hint) from None


def _move_away(path: Path) -> str:
    return f"`mv {shlex.quote(str(path))} {shlex.quote(f'{path}.old')}`"
