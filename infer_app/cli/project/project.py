"""`infer init`, `images add`, `db upgrade` and `config show`."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path

import tomlkit
import tomlkit.exceptions
from pydantic import SecretStr

from infer_app.base.atomic_file import decode_text, replace_file
from infer_app.base.domain import FileFacts, ImageFile
from infer_app.base.errors import DatabaseUnavailable, ModelError, UsageError, os_errors_as
from infer_app.base.locations import AllowedPrefix, RemoteAccess, is_remote, parse_url, shown
from infer_app.base.printing import counted, one_line, printable
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import DEFAULT_CONFIG, LoadedSettings, load_settings
from infer_app.base.settings.masks import has_password
from infer_app.base.settings.sections import DatabaseSettings, SourceSettings
from infer_app.base.settings.settings_sources import variable
from infer_app.cli.terminal.output import show_table
from infer_app.predict.images.decode.capture_time import count_dated
from infer_app.predict.images.read.folder_scan import FolderScan, find_images
from infer_app.predict.images.read.local_files import hash_files
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, run_in_process
from infer_app.run.files.registration import describe_left_out
from infer_app.run.files.watched_folders import WatchedFolders
from infer_app.tables.engine.column_types import is_utf8
from infer_app.tables.engine.connect import Database
from infer_app.tables.known_database import join
from infer_app.tables.listing.image_registry import add_images, add_objects
from infer_app.tables.listing.picture_tables import PictureTable, find_picture_tables
from infer_app.tables.project_database import open_project_database, upgrade_results_database
from infer_app.tables.results.schema import VERSION

PHOTOS = "photos"  # the folder that a new project watches
TEMPLATE = Path(__file__).with_name("template.toml").read_text(encoding="utf-8")  # what a new infer.toml says
OTHER_DATABASE = '# database_url = "postgresql://reader@host/lab"'  # lines of it
TO_FILL_IN = "# Fill in the four lines of the table that lists your images, and take their # away:\n"
EXAMPLE = TEMPLATE[TEMPLATE.index("# table =") : TEMPLATE.index("# base =")]


def watching(folder: str, *, by_camera: bool = False) -> str:
    """Return the template with a folder whose new images each run registers, by the dates of their files or cameras."""
    text = TEMPLATE.replace('# watch = ["photos"]', f"watch = [{json.dumps(folder, ensure_ascii=False)}]")
    return text.replace('# day = "taken"', 'day = "taken"') if by_camera else text


def init_project(watch: Path | None, database: str | None, source: str | None) -> None:
    """Write an infer.toml: for a folder of photos, or for a table that lists them."""
    if watch and (database or source):
        raise UsageError("--watch is for photos in folders, --database and --source for a table that lists them")
    if database or source:
        init_from(database, source)
    else:
        init(photos=watch)


def init_from(database: str | None, source: str | None = None, folder: Path | None = None) -> None:
    """Write an infer.toml in which the tables with names of pictures are commented out.

    Raises UsageError for an invalid URL and beside an infer.toml, and DatabaseUnavailable if there is no answer.
    """
    path, settings = (folder or Path()) / DEFAULT_CONFIG, TEMPLATE
    if path.exists():
        raise UsageError(f"{path} exists and was not changed", f"`mv {path} {path}.old`, and run this command again")
    databases = DatabaseSettings() if database is None else DatabaseSettings(url=SecretStr(database))
    listing = SourceSettings(database_url=None if source is None else SecretStr(source))
    loaded = LoadedSettings.model_construct(origins={}, path=path.absolute(), database=databases, source=listing)
    with Database(loaded.source_url, read_only=True) as opened:
        if opened.file is not None and not opened.file.exists():
            hint = "name the one that lists your images; photos in folders need no --database"
            raise DatabaseUnavailable(f"the file {opened.file} does not exist", hint)
        tables = find_picture_tables(opened)
    if tables:
        settings = settings.replace(EXAMPLE, "".join([TO_FILL_IN, *map(_to_fill_in, tables)]))
    if database:
        settings = settings.replace('url = "sqlite:///infer.db"', f"url = {_quoted(database)}", 1)
    if source:
        settings = settings.replace(OTHER_DATABASE, f"database_url = {_quoted(source)}", 1)
    urls = {"database.url": loaded.database_url, "source.database_url": loaded.source_url}
    secret = [variable(key) for key, url in urls.items() if has_password(url)]
    write_config(folder, settings, 0o600 if secret else 0o666)
    if secret:
        print(f"it holds the password and only you may read it; or leave the url out and set {secret[-1]}")
    names = ", ".join(one_line(table.name) for table in tables)
    print(f"fill in [source]: names of pictures are in {names or 'no table or view'}")
    print("next: `infer db upgrade` makes the tables for results, all named infer_…; `infer doctor` checks the rest")


def _to_fill_in(table: PictureTable) -> str:
    names = ", ".join(f"{column} ({shown(name)})" for column, name in table.names.items())
    keys = f'id = ""  # its columns: {", ".join(table.columns)}', f'location = ""  # names of pictures: {names}'
    return "".join(f"# {one_line(line)}\n" for line in (f"table = {_quoted(table.name)}", *keys, 'time = ""'))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def init(folder: Path | None = None, photos: Path | None = None) -> None:
    """Write infer.toml for a folder of photos, by default a new one; keep an existing file."""
    watched = (folder or Path()) / (photos or PHOTOS)
    if photos and not watched.is_dir():
        raise UsageError(f"no such folder: {printable(str(photos))}", "make it, or mount its storage")
    if ((folder or Path()) / DEFAULT_CONFIG).exists():
        write_config(folder)
        return
    num_looked_at = num_dated = 0
    with suppress(ModelError):  # photos that crash a library, or storage that does not answer
        num_looked_at, num_dated = run_in_process(count_dated, str(watched), timeout_s=STORAGE_TIMEOUT_S)
    write_config(folder, watching(str(photos or PHOTOS), by_camera=num_dated > 0))
    with os_errors_as(UsageError, f"can't make {watched}", "name another folder in [images] watch"):
        watched.mkdir(exist_ok=True)
    print(f"each `infer run` registers the photos that are new in {watched} ([images] watch)")
    if num_dated:
        text = f"{num_dated} of the first {counted(num_looked_at, 'photo')} state when they were taken"
        print(f'{text}, which decides their days ([images] day = "taken")')
    else:
        print('the day of a photo is that of its file; to take its camera\'s: [images] day = "taken"')


def write_config(folder: Path | None = None, settings: str = TEMPLATE, mode: int = 0o666) -> Path:
    """Write infer.toml into `folder` (default: the current one) and return its path; an existing file is kept."""
    path = (folder or Path()) / DEFAULT_CONFIG
    try:
        with open(path, "x", opener=partial(os.open, mode=mode)) as file:
            file.write(settings)
    except FileExistsError:
        print(f"{path} exists and was not changed")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}", "choose a folder you may write to") from None
    else:
        print(f"wrote {path}")
    return path


def add(paths: Sequence[str | Path], date: str | None, config: Path | None) -> None:
    """Register the images in files, folders and at URLs, and allow their locations to be read."""
    loaded = load_settings(config)
    if not loaded.lists_own_images:
        raise UsageError(
            "[source] names a table or database of your own, where infer_app adds nothing",
            "add rows to it, or leave [source] out",
        )
    urls = [path for path in paths if isinstance(path, str) and is_remote(path)]
    local = _existing([path for path in paths if path not in urls])
    added_at = _added_at(loaded, date)
    scans = [FolderScan(str(path), loaded.images.exclude) for path in local]
    files = [file for path, scan in zip(local, scans, strict=True) for file in find_images(path, scan)]
    storable = [file for file in files if is_utf8(str(file))]
    places = [_prefix_of(url) for url in urls]
    with open_project_database(loaded) as project:
        folders = [path if path.is_dir() else path.parent for path in local]
        allow_roots(loaded, folders)
        allow_places(loaded, places)
        # As a run does: what is added would hide it from runs.
        for moved in WatchedFolders(loaded, project.database).follow_moved():
            print(printable(moved))
        looked = partial(_hash, limits=ReadLimits((*loaded.roots, *folders), 0, path_map=loaded.path_map))
        camera_of, known = project.source.camera_of, len(storable)
        added = add_images(project.database, storable, added_at, loaded.path_map, looked, camera_of)
        for url, place in zip(urls, places, strict=True):
            scan = FolderScan(str(place), loaded.images.exclude)
            scans.append(scan)
            for found in _list_images(url, place, loaded.remote_access, scan):
                added += add_objects(project.database, found, added_at, camera_of)
                known += len(found)
    print(f"{counted(added, 'image')} added for {date or 'today'}, {known - added:,} known already")
    if left_out := sum((scan.left_out for scan in scans), Counter[str]()):
        print(f"left out by their names or kinds: {describe_left_out(left_out)}; a file that is named itself is added")
    for problem in chain.from_iterable(scan.unreadable for scan in scans):
        print(f"left out, since it can't be read: {printable(problem)}")
    for file in sorted(set(files) - set(storable)):
        print(f"left out, its name is not UTF-8 and no database can hold it; rename it: {printable(str(file))}")


def _existing(paths: Sequence[str | Path]) -> list[Path]:
    """Return the absolute paths. Raises UsageError for one that is not there."""
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"no such file or folder: {printable(str(path))}")
    return [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - without `..`, with the user's links


def _hash(files: Sequence[ImageFile], limits: ReadLimits) -> Iterator[FileFacts]:
    return filter(None, hash_files([file.location for file in files], limits))


def _prefix_of(url: str) -> AllowedPrefix:
    """Return the folder of a URL, which is the URL itself if it ends in a slash."""
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise UsageError(f"{shown(url)}: {error}") from None
    folder, _, _ = parsed.path.rpartition("/")
    return AllowedPrefix(replace(parsed, path=f"{folder}/", query=""))


def _list_images(
    url: str, place: AllowedPrefix, access: RemoteAccess, scan: FolderScan
) -> Iterator[list[tuple[str, int | None]]]:
    """Yield (location, size in bytes) of a single image, or of all below a folder, one folder at a time."""
    if not parse_url(url).path.endswith("/"):
        yield [(url, None)]
        return
    from infer_app.predict.images.read.remote import list_folders

    start = len(str(place))
    for found in list_folders(place, access):
        yield [(location, size) for location, size in found if scan.may_be_image(location[start:])]


def allow_roots(loaded: LoadedSettings, folders: Sequence[Path]) -> None:
    """Add folders to [images] roots in infer.toml and keep its comments. Raises UsageError if it can't be written."""
    new = [folder for folder in dict.fromkeys(folders) if not any(folder.is_relative_to(root) for root in loaded.roots)]
    _append_to_setting(loaded.path, "images", "roots", list(map(str, new)))


def allow_places(loaded: LoadedSettings, places: Sequence[AllowedPrefix]) -> None:
    """Add places to [remote] allow in infer.toml and keep its comments. Raises UsageError if it can't be written."""
    known = loaded.remote_access.places
    new = [place for place in dict.fromkeys(places) if not any(one.allows(place.root) for one in known)]
    _append_to_setting(loaded.path, "remote", "allow", list(map(str, new)))


def _append_to_setting(config: Path, section: str, key: str, new: Sequence[str]) -> None:
    if not new:
        return
    try:
        document = tomlkit.parse(decode_text(config.read_bytes(), str(config)))
        table = document.setdefault(section, tomlkit.table())
        table.setdefault(key, tomlkit.array()).extend(new)
        replace_file(config, tomlkit.dumps(document).encode())
    except (OSError, UnicodeEncodeError, tomlkit.exceptions.TOMLKitError) as error:
        listed = printable(", ".join(f'"{one}"' for one in new))
        raise UsageError(f"can't change {config}: {error}", f"add to [{section}] {key}: {listed}") from None


def upgrade(config: Path | None) -> None:
    loaded = load_settings(config)
    with Database(loaded.database_url) as database:
        before = upgrade_results_database(loaded, database)
    was = "unchanged" if before == VERSION else f"was {before or 'empty'}"
    print(f"{loaded.shown_url}: table layout {VERSION}, {was}")


def join_project(config: Path | None) -> None:
    loaded = load_settings(config)
    with Database(loaded.database_url, read_only=True) as database:
        print(f"{loaded.path} is of the project {join(loaded, database)}, whose results {loaded.shown_url} holds")


def show_config(with_origin: bool, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    entries = [(key, _plain(value), origin) for key, value, origin in loaded.flattened()]
    if as_json:
        print(json.dumps({key: {"value": value, "origin": origin} for key, value, origin in entries}))
        return
    cells = [
        (key, json.dumps(value), origin) if with_origin else (key, json.dumps(value)) for key, value, origin in entries
    ]
    show_table(("setting", "value", "from") if with_origin else ("setting", "value"), cells)


def _added_at(loaded: LoadedSettings, date: str | None) -> datetime:
    """Return now, or noon of the date, which is the same date in almost every time zone."""
    if date is None:
        return datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    noon = loaded.day(date).start + timedelta(hours=12)
    return noon.replace(tzinfo=None)


def _plain(value: object) -> object:
    return (
        [str(item) for item in value] if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    )
