"""Read the settings from infer.toml, INFER_* variables and flags; an unknown key is an error."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from pathlib import Path

from pydantic import SecretStr, ValidationError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from infer_app.base.day import Day, each_date, parse_date
from infer_app.base.errors import UsageError
from infer_app.base.locations import AllowedPrefix, PathMapping, RemoteAccess
from infer_app.base.settings.masks import mask_address, mask_url
from infer_app.base.settings.sections import Settings
from infer_app.base.settings.settings_sources import KEYS, did_you_mean, read_file, read_variables

Flags = Mapping[str, Mapping[str, object]]  # section -> key -> value
DEFAULT_CONFIG = Path("infer.toml")
READ_TIMEOUT_SHARE = 0.9  # of the time limit: a read must end before, because a worker that reaches the limit is killed
_PRECEDENCE = {"environment": 1, "flag": 2}  # the file has 0


class LoadedSettings(Settings):
    """The settings from all sources and the file's path; the properties are the forms that the program uses.

    Cached properties depend on no key of [run], so a copy may differ in `run`, but in nothing else.
    """

    path: Path  # of infer.toml; relative paths are relative to its folder
    origins: dict[str, str]  # dotted key -> the file's name, "environment" or "flag"; none for a default

    @cached_property
    def database_url(self) -> str:
        """Return the URL with its password, for SQLAlchemy only: print `shown_url` instead."""
        url = self._with_schema(self._read_url("[database] url", self.database.url))
        return url.render_as_string(hide_password=False)

    @cached_property
    def source_url(self) -> str:
        """Return the URL of the database that lists the images, with its password; it may be the same database."""
        url = self.source.database_url
        if url is None:
            return self.database_url
        return self._read_url("[source] database_url", url).render_as_string(hide_password=False)

    def _read_url(self, key: str, secret: SecretStr) -> URL:
        try:
            url = make_url(secret.get_secret_value())
        except (ArgumentError, ValueError):
            raise UsageError(
                f"{key} can't be read as a database URL",
                "for example sqlite:///infer.db or postgresql://user:password@host/name, without jdbc: before it",
            ) from None
        if "@" in (url.host or ""):  # a part of the password, which would be shown as the host
            raise UsageError(
                f"{key} has more than one @",
                "write the one in the password as %40, and escape other special characters",
            )
        if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
            url = url.set(database=str(self.resolve(Path(url.database))))
        return url

    def _with_schema(self, url: URL) -> URL:
        """Name our schema, which each transaction searches first; the user's tables are found in `public`."""
        schema = self.database.results_schema
        if schema is None:
            return url
        if url.get_backend_name() not in ("postgresql", "postgres"):
            raise UsageError("[database] results_schema: only PostgreSQL has schemas", "leave it out")
        return url.update_query_dict({"results_schema": schema})

    @cached_property
    def shown_url(self) -> str:
        """Return the database's URL without its password."""
        return mask_url(make_url(self.database_url))

    def day(self, text: str) -> Day:
        """Return the day of a date, `today` or `yesterday` in `[run] time_zone`. Raises UsageError for others."""
        return Day.of(parse_date(text, self.run.time_zone), self.run.time_zone)

    def days(self, first: str, last: str, flags: tuple[str, str] = ("--date", "--until")) -> list[Day]:
        """Return each day from `first` to `last`; `flags` are those that they were given with. Raises UsageError."""
        ends = self.day(first), self.day(last)
        return [Day.of(one, ends[0].zone) for one in each_date(ends[0].date, ends[1].date, flags)]

    @property
    def lists_own_images(self) -> bool:
        """Return whether the images are listed in our own table, in the database of the results."""
        source = self.source
        return source.query is None and source.table == "infer_images" and self.source_url == self.database_url

    @property
    def wants_facts(self) -> bool:
        """Return whether cameras and capture times of pictures are wanted."""
        source = self.source
        return any((source.camera, source.taken, source.taken_in_name, self.events.gap))

    @property
    def model_names(self) -> tuple[str, ...]:
        """Return the models to run, from whichever of `model` and `models` has precedence; none: all names.

        Raises UsageError if both are set at the same level, or if a model is named twice.
        """
        run = self.run
        one, several = (self.origins.get(f"run.{key}", "default") for key in ("model", "models"))
        if run.model is not None and run.models:
            if one == several:
                raise UsageError(f"{one}: run.model and run.models are both set", "name all models in run.models")
            winner = max(one, several, key=lambda origin: _PRECEDENCE.get(origin, 0))
            names = run.models if winner == several else (run.model,)
        else:
            names = run.models or ((run.model,) if run.model is not None else ())
        if len(set(names)) < len(names):
            raise UsageError(f"a model is named twice: {', '.join(names)}")
        return names

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def models_folder(self) -> Path:
        return self.resolve(self.models.folder)

    @property
    def reports_folder(self) -> Path:
        return self.folder / "reports"

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """Return the folders that images may be read from: [images] roots, else [source] base, and those watched."""
        roots = tuple(map(self._absolute, self.images.roots))
        if not roots and self.base is not None:
            roots = (Path(self.path_map.to_local(f"{self.base}/")),)
        inside = [folder for folder in self.all_watched if not any(folder.is_relative_to(root) for root in roots)]
        return (*roots, *inside)

    @cached_property
    def watched(self) -> tuple[Path, ...]:
        """Return the folders whose new images a run registers, without those inside another one.

        Raises UsageError if the images are not listed in our own table, where alone they can be registered.
        """
        if self.all_watched and not self.lists_own_images:
            raise UsageError(
                "[images] watch registers files in our own list, but [source] names a table or database of your own",
                "leave out [images] watch, or the keys of [source]",
            )
        named = self.all_watched
        return tuple(one for one in named if not any(one.is_relative_to(other) for other in named - {one}))

    def watches(self, location: str) -> bool:
        """Return whether each run looks at the file of a registered image, however old its day is."""
        file = Path(self.path_map.to_local(location))
        return self.lists_own_images and any(file.is_relative_to(folder) for folder in self.all_watched)

    @cached_property
    def all_watched(self) -> Set[Path]:
        """Return the folders that [images] watch names, those inside another one too."""
        return dict.fromkeys(self._absolute(folder) for folder in self.images.watch).keys()

    @cached_property
    def base(self) -> Path | None:
        """Return the folder that relative locations start at."""
        return None if self.source.base is None else self._absolute(self.source.base)

    def _absolute(self, path: Path) -> Path:
        return Path(os.path.abspath(self.resolve(path)))  # noqa: PTH100 - without `..`, with the user's links

    @cached_property
    def path_map(self) -> PathMapping:
        return PathMapping.of(self.images.map, "" if self.base is None else str(self.base))

    @cached_property
    def remote_access(self) -> RemoteAccess:
        return RemoteAccess(
            tuple(map(AllowedPrefix.parse, self.remote.allow)),
            frozenset(host.strip("[]").lower() for host in self.remote.allow_private_hosts),
            READ_TIMEOUT_SHARE * self.images.timeout_s,
            self.remote.retries,
            self.remote.concurrency,
        )

    def resolve(self, path: Path) -> Path:
        try:
            return (self.folder / path.expanduser()).absolute()
        except RuntimeError:  # ~user of nobody
            raise UsageError(f"{path}: there is no such user", "write the folder in full, or ./~ for a name") from None

    def flattened(self) -> Iterator[tuple[str, object, str]]:
        """Yield (key, value, origin) of every setting, with secrets masked."""
        for dotted in KEYS:
            section, _, key = dotted.partition(".")
            value = getattr(getattr(self, section), key)
            yield dotted, self._shown(dotted, value), self.origins.get(dotted, "default")

    def _shown(self, dotted: str, value: object) -> object:
        if dotted == "database.url":
            return self.shown_url
        if dotted == "source.database_url" and value is not None:
            return mask_url(make_url(self.source_url))
        if dotted == "ray.runtime_env":  # variables for the nodes may be passwords
            return dict.fromkeys(value, "***") if isinstance(value, dict) else value
        return mask_address(value.get_secret_value()) if isinstance(value, SecretStr) else value


def load_settings(config: Path | None = None, flags: Flags | None = None) -> LoadedSettings:
    """Return the settings of `config` (default ./infer.toml), overridden by INFER_* variables, then by `flags`.

    A flag that is None was not given. Raises UsageError with "did you mean" for an unknown key, and for a bad value.
    """
    path = config or DEFAULT_CONFIG
    folder = Path(os.path.realpath(path.parent))  # the same by whichever links and from wherever it was named
    given = {
        name: {key: value for key, value in table.items() if value is not None} for name, table in (flags or {}).items()
    }
    found: defaultdict[str, dict[str, object]] = defaultdict(dict)
    origins: dict[str, str] = {}
    file = folder / path.name
    for origin, tables in ((path.name, read_file(file)), ("environment", read_variables()), ("flag", given)):
        for section, table in tables.items():
            found[section] |= table
            origins |= {f"{section}.{key}": origin for key in table}
    try:
        return LoadedSettings.model_validate({**found, "path": file, "origins": origins})
    except ValidationError as error:
        raise _explain(error, origins) from None


def _explain(error: ValidationError, origins: dict[str, str]) -> UsageError:
    first = error.errors(include_url=False, include_input=False)[0]  # the input may hold a password
    dotted = ".".join(str(part) for part in first["loc"][:2])
    where = origins.get(dotted, "settings")
    key = str(first["loc"][1] if len(first["loc"]) > 1 else first["loc"][0])
    if first["type"] == "extra_forbidden":
        section = str(first["loc"][0])
        return UsageError(f"{where}: unknown key {key!r} in [{section}]", did_you_mean(key, section))
    reason = first["msg"].removeprefix("Value error, ")
    return UsageError(f"{where}: {dotted}: {reason}", "docs/reference/settings.md says what each key may be")
