"""What the user configures: infer.toml, then INFER_* variables, then flags; an unknown key is an error."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from infer_app.day import find_zone
from infer_app.errors import UsageError
from infer_app.places import PathMap, Place, RemoteAccess, shown

DEFAULT_CONFIG = Path("infer.toml")
MIB = 1 << 20
# Of a database URL's options; any other could be a password by another name, or a slip of the pen for one.
_SHOWN_OPTIONS = {"host", "port", "unix_socket", "dbname", "sslmode", "connect_timeout", "charset", "application_name"}
GIVES_UP_AFTER = 0.9  # of the time limit, by itself: a worker that reaches the limit is killed


def _known_zone(name: str) -> str:
    try:
        find_zone(name)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return name


def _a_list(names: object) -> object:
    if isinstance(names, str):
        raise ValueError('a list is needed, such as ["a", "b"]')
    return names


def _are_places(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            Place.parse(text)
        except ValueError as error:
            raise ValueError(f"{shown(text)!r}: {error}") from None
    return texts


def _are_folders(folders: dict[str, str]) -> dict[str, str]:
    for path in (*folders, *folders.values()):
        if not path.startswith("/") or ".." in path.split("/") or "//" in path:
            raise ValueError(f"{path!r} is no absolute path without `..` and `//`")
    stripped = [path.rstrip("/") for path in folders]
    if len(set(stripped)) < len(stripped):
        raise ValueError("a folder is named twice")
    return folders


Zone = Annotated[str, AfterValidator(_known_zone)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseSettings(Section):
    url: SecretStr = SecretStr("sqlite:///infer.db")  # any SQLAlchemy URL; a relative SQLite path is beside infer.toml
    results_schema: str | None = Field(None, pattern=r"^[a-z_][a-z0-9_]{0,62}$")  # PostgreSQL: where our tables are


class SourceSettings(Section):
    """Where the day's images are listed: our own table, or yours by column names. It is only read."""

    database_url: SecretStr | None = None  # of the database that lists them, where it is another than that of results
    table: str = "infer_images"  # a table or view, `schema.name` where needed
    query: str | None = None  # a SELECT used instead of `table`
    id: str = "id"
    location: str = "location"
    bytes: str | None = None  # a column that holds the image itself, instead of its location
    time: str = "added_at"  # decides an image's day
    time_zone: Zone | None = None  # of a `time` column without one; our own table is in UTC


class ImagesSettings(Section):
    roots: tuple[Path, ...] = ()  # folders that images may be read from
    map: Annotated[dict[str, str], AfterValidator(_are_folders)] = {}  # folders, as recorded: where they lie here
    max_bytes: int = Field(256 * MIB, gt=0)
    max_pixels: int = Field(64_000_000, gt=0)
    timeout_s: float = Field(30.0, gt=0)  # for one image: reading, then decoding


class RemoteSettings(Section):
    """Images that lie elsewhere: https://, s3://, gs://, az://. None is read unless its place is allowed."""

    allow: Annotated[tuple[str, ...], BeforeValidator(_a_list), AfterValidator(_are_places)] = ()  # and what is below
    allow_private_hosts: Annotated[
        tuple[str, ...], BeforeValidator(_a_list)
    ] = ()  # of these, those whose addresses are of the local network
    retries: int = Field(3, ge=0, le=10)  # of a read that failed and may go well soon, within [images] timeout_s
    concurrency: int = Field(8, ge=1, le=64)  # reads at a time, of each worker


class CacheSettings(Section):
    """Transformed pixels kept between runs, for a second model over the same images."""

    max_size: ByteSize = Field(
        ByteSize(0), ge=0, le=1 << 50
    )  # on disk, such as "10GB"; 0: none. Another one empties the cache
    folder: Path = Path(".infer-cache")


class ModelsSettings(Section):
    folder: Path = Path("models")


class RunSettings(Section):
    model: str | None = None
    models: Annotated[
        tuple[str, ...], BeforeValidator(_a_list)
    ] = ()  # instead of `model`: several in one night, images read and decoded once for all
    time_zone: Zone = "UTC"  # in which a day begins and ends
    lookback: int = Field(3, ge=0, le=366)  # days before the day that are looked at again for late images
    executor: Literal["auto", "cpu", "cuda", "ray"] = (
        "auto"  # auto: by the device; cuda on a CPU is its ring without a GPU; ray: on a cluster
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU where the model has a variant for it; cuda: or fail
    variant: str = "auto"  # the fastest here; or the name of one, which is then never replaced
    allow_int8: bool = False  # auto may take the int8 variant, where the model has a good one
    workers: int = Field(0, ge=0)  # 0: one for each core that this process may use
    chunk_size: int = Field(0, ge=0, le=256)  # images in a transaction; 0: a quarter second's work
    wait: bool = False  # for another run that holds the day, instead of ending with exit code 13
    max_rejected: str = "5%"  # more than this ends with exit code 3: a share (at least 10 images) or a number

    @field_validator("max_rejected")
    @classmethod
    def _share_or_number(cls, text: str) -> str:
        rejection_budget(text, 0)
        return text


class RaySettings(Section):
    """The Ray cluster of `executor = "ray"`. An actor is a whole executor on a node, with workers of its own."""

    address: str = "local"  # auto: the cluster this machine is in; host:port; local: this machine alone, for the run
    actors: int = Field(0, ge=0)  # 0: as many as the nodes have room for; more wait, and have an autoscaler add nodes
    num_cpus: int = Field(0, ge=0)  # of an actor, a worker for each; 0: those of the smallest node
    num_gpus: float = Field(0.0, ge=0)  # of an actor; with one it is the `cuda` executor
    runtime_env: dict[str, Any] = {}  # Ray's own: what nodes are to install or set; they have infer_app without it


def _address(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError("it must begin with http:// or https:// and a host")
    return url


def _prom_file(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError("its name must end in .prom: the textfile collector reads no other")
    return path


Address = Annotated[SecretStr, AfterValidator(_address)]  # its path is often a password


class LogSettings(Section):
    format: Literal["text", "json"] = "text"  # of the lines on standard error; json: one object a line


class MetricsSettings(Section):
    textfile: Annotated[Path, AfterValidator(_prom_file)] | None = None  # for node_exporter's textfile collector


class PingSettings(Section):
    """A dead man's switch as healthchecks.io's: told of a run's start and end, it raises the alarm without them."""

    url: Address | None = None


class WebhookSettings(Section):
    url: Address | None = None  # gets what `infer run --json` prints


class Settings(BaseSettings):
    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    database: DatabaseSettings = DatabaseSettings()
    source: SourceSettings = SourceSettings()
    images: ImagesSettings = ImagesSettings()
    remote: RemoteSettings = RemoteSettings()
    cache: CacheSettings = CacheSettings()
    models: ModelsSettings = ModelsSettings()
    run: RunSettings = RunSettings()
    ray: RaySettings = RaySettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    ping: PingSettings = PingSettings()
    webhook: WebhookSettings = WebhookSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # load_settings merges the layers itself, to know where each value came from


class LoadedSettings:
    """Settings, the folder their paths are relative to, and where each value came from."""

    def __init__(self, settings: Settings, path: Path, origins: dict[str, str]) -> None:
        self.settings = settings
        self.path = path
        self.folder = path.parent
        self.origins = origins  # dotted key -> "default", the file, a variable or "flag"

    @property
    def database_url(self) -> str:
        """The URL with its password, for SQLAlchemy only: print `shown_url` instead."""
        url = self._with_schema(self._read_url("[database] url", self.settings.database.url))
        return url.render_as_string(hide_password=False)

    @property
    def source_url(self) -> str:
        """Of the database that lists the images, which may be the same; with its password too."""
        url = self.settings.source.database_url
        if url is None:
            return self.database_url
        return self._read_url("[source] database_url", url).render_as_string(hide_password=False)

    def _read_url(self, key: str, secret: SecretStr) -> URL:
        try:
            url = make_url(secret.get_secret_value())
        except (ArgumentError, ValueError):
            raise UsageError(
                f"{key} can't be read as a database URL",
                "for example sqlite:///infer.db or postgresql://user:password@host/name",
            ) from None
        if "@" in (url.host or ""):  # the rest of a password, which would be shown as the host
            raise UsageError(
                f"{key} has more than one @", "write the one in the password as %40, as every special character"
            )
        if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
            url = url.set(database=str(self.resolve(Path(url.database))))
        return url

    def _with_schema(self, url: URL) -> URL:
        """Our tables are where the search path begins; those of the user's own are still found in `public`."""
        schema = self.settings.database.results_schema
        if schema is None:
            return url
        if url.get_backend_name() not in ("postgresql", "postgres"):
            raise UsageError("[database] results_schema: only PostgreSQL has schemas", "leave it out")
        if "options" in url.query:
            both = "[database] results_schema and options in its url are both set"
            raise UsageError(both, "set search_path in the options")
        return url.update_query_dict({"options": f"-csearch_path={schema},public"})

    @property
    def shown_url(self) -> str:
        return mask_url(make_url(self.database_url))

    def _shown(self, dotted: str, value: object) -> object:
        if dotted == "database.url":
            return self.shown_url
        if dotted == "source.database_url" and value is not None:
            return mask_url(make_url(self.source_url))
        if dotted == "ray.runtime_env":  # variables for the nodes may be passwords
            return dict.fromkeys(value, "***") if isinstance(value, dict) else value
        return mask_address(value.get_secret_value()) if isinstance(value, SecretStr) else value

    @property
    def lists_own_images(self) -> bool:
        """Whether the images are those of our own table, which stands beside the results."""
        source = self.settings.source
        return source.query is None and source.table == "infer_images" and self.source_url == self.database_url

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models to run, by whichever of `model` and `models` was said nearer to the command; none: the only one.

        Raises UsageError where both were said in the same place, or one model twice.
        """
        run = self.settings.run
        one, several = (self.origins.get(f"run.{key}", "default") for key in ("model", "models"))
        if run.model is not None and run.models:
            if one == several:
                raise UsageError(f"{one}: run.model and run.models are both set", "name all models in run.models")
            nearer = max(one, several, key=lambda origin: _NEARNESS.get(origin, 0))
            names = run.models if nearer == several else (run.model,)
        else:
            names = run.models or ((run.model,) if run.model is not None else ())
        if len(set(names)) < len(names):
            raise UsageError(f"a model is named twice: {', '.join(names)}")
        return names

    @property
    def models_folder(self) -> Path:
        return self.resolve(self.settings.models.folder)

    @property
    def cache_folder(self) -> Path:
        return self.resolve(self.settings.cache.folder)

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(self.resolve(root) for root in self.settings.images.roots)

    @property
    def path_map(self) -> PathMap:
        return PathMap.of(self.settings.images.map)

    @property
    def remote(self) -> RemoteAccess:
        remote = self.settings.remote
        return RemoteAccess(
            tuple(map(Place.parse, remote.allow)),
            frozenset(host.strip("[]").lower() for host in remote.allow_private_hosts),
            GIVES_UP_AFTER * self.settings.images.timeout_s,
            remote.retries,
            remote.concurrency,
        )

    def resolve(self, path: Path) -> Path:
        return (self.folder / path.expanduser()).absolute()

    def flattened(self) -> Iterator[tuple[str, Any, str]]:
        """(key, value, origin) of every setting, secrets masked."""
        for section, model in self.settings:
            for key, value in model:
                dotted = f"{section}.{key}"
                yield dotted, self._shown(dotted, value), self.origins.get(dotted, "default")


_NEARNESS = {"environment": 1, "flag": 2}  # the file is farthest


def mask_address(url: str) -> str:
    """Of a web address no more than whose it is: user, path and query may be its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/***"


def mask_url(url: URL) -> str:
    """The URL as it may be shown: no password, wherever in it one stands."""
    masked = {key: value if key in _SHOWN_OPTIONS else "***" for key, value in url.query.items()}
    return url.set(query=masked).render_as_string(hide_password=True)


def has_password(url: str) -> bool:
    parsed = make_url(url)
    return mask_url(parsed) != parsed.render_as_string(hide_password=False)


def load_settings(
    config: Path | None = None, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> LoadedSettings:
    """Settings of `config` (default ./infer.toml), overridden by INFER_* variables, then by `flags` (dotted keys).

    Raises UsageError with "did you mean" for an unknown key, and for a value of the wrong kind.
    """
    path = (config or DEFAULT_CONFIG).absolute()
    layers = [
        (str(path.name), _read_toml(path)),
        ("environment", _read_environment(environ)),
        ("flag", {key: value for key, value in (flags or {}).items() if value is not None}),
    ]
    origins = {key: origin for origin, layer in layers for key in layer}
    merged: dict[str, Any] = {}
    for _, layer in layers:
        for dotted, value in layer.items():
            section, _, key = dotted.partition(".")
            merged.setdefault(section, {})[key] = value
    try:
        return LoadedSettings(Settings(**merged), path, origins)
    except ValidationError as error:
        raise _explain(error, origins) from None


def rejection_budget(text: str, num_images: int) -> int:
    """How many of `num_images` may be rejected before the exit code says so: "5%" (at least 10) or "25"."""
    try:
        budget = max(10, int(float(text[:-1]) / 100 * num_images)) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a share such as 5% nor a number such as 25") from None
    if budget < 0:
        raise ValueError("it can't be negative")
    return budget


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"no {path.name} in {path.parent}", "run `infer init` there, or name one with --config FILE")
    try:
        tables = TomlConfigSettingsSource(Settings, path)()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", "mend the line, or compare with what `infer init` writes") from None
    flat: dict[str, Any] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path.name}: {section!r} stands outside a [section]", _did_you_mean(section))
        _check_section(section, path.name)
        flat |= {f"{section}.{key}": value for key, value in table.items()}
    return flat


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """INFER_SECTION__KEY variables; a value that reads as a list is one (INFER_IMAGES__ROOTS=/a:/b)."""
    flat: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith("INFER_") or name == "INFER_CONFIG":
            continue
        section, _, key = name.removeprefix("INFER_").lower().partition("__")
        dotted = f"{section}.{key}"
        if dotted not in _known_keys():
            close = difflib.get_close_matches(dotted, _known_keys(), 1, 0.5)
            hint = f"did you mean {variable(close[0])}?" if close else "`infer config show` lists the settings"
            raise UsageError(f"unknown variable {name}", hint)
        flat[dotted] = _as_map(text) if dotted == "images.map" else _as_list(dotted, text)
    return flat


def _as_map(text: str) -> dict[str, str]:
    """Folders as INFER_IMAGES__MAP names them: /recorded=/here, parted as in PATH."""
    found: dict[str, str] = {}
    for part in text.split(os.pathsep) if text else ():
        recorded, equals, here = part.partition("=")
        if not equals or "=" in here or recorded in found:
            hint = "part several by colons, each once; folders that hold = or : can be named in infer.toml only"
            raise UsageError(f"INFER_IMAGES__MAP: {part!r} is not of the form /recorded=/here", hint)
        found[recorded] = here
    return found


def _as_list(dotted: str, text: str) -> str | list[str]:
    """A variable is one text; folders are parted as in PATH, names by commas."""
    separators = {"images.roots": os.pathsep, "run.models": ",", "remote.allow": ",", "remote.allow_private_hosts": ","}
    return [part.strip() for part in text.split(separators[dotted])] if dotted in separators else text


def _known_keys() -> list[str]:
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    return [f"{name}.{key}" for name, section in sections.items() for key in section.model_fields]  # type: ignore[union-attr]


def variable(dotted: str) -> str:
    return "INFER_" + dotted.replace(".", "__").upper()


def _check_section(section: str, file: str) -> None:
    if section not in Settings.model_fields:
        close = difflib.get_close_matches(section, list(Settings.model_fields), 1, 0.5)
        hint = f"did you mean [{close[0]}]?" if close else f"known are {', '.join(Settings.model_fields)}"
        raise UsageError(f"{file}: unknown section [{section}]", hint)


def _did_you_mean(key: str, section: str = "") -> str:
    """A hint for an unknown key: the nearest known one, in its section rather than in another."""
    known = sorted(_known_keys(), key=lambda dotted: dotted.startswith(f"{section}."))
    names = {dotted.partition(".")[2]: dotted for dotted in known}
    close = difflib.get_close_matches(key, list(names), 1, 0.5)
    if not close:
        return "`infer config show` lists the settings"
    section, _, name = names[close[0]].partition(".")
    return f"did you mean {name} in [{section}]?"


def _explain(error: ValidationError, origins: dict[str, str]) -> UsageError:
    first = error.errors(include_url=False, include_input=False)[0]  # the input may hold a password
    dotted = ".".join(str(part) for part in first["loc"][:2])
    where = origins.get(dotted, "settings")
    key = str(first["loc"][1] if len(first["loc"]) > 1 else first["loc"][0])
    if first["type"] == "extra_forbidden":
        section = str(first["loc"][0])
        return UsageError(f"{where}: unknown key {key!r} in [{section}]", _did_you_mean(key, section))
    return UsageError(f"{where}: {dotted}: {first['msg']}", "`infer config show --origin` shows what is set where")
