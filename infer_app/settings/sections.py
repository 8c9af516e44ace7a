"""What can be configured: the sections and keys of infer.toml, their types and their defaults."""

from __future__ import annotations

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
    field_validator,
)

from infer_app.day import find_zone
from infer_app.errors import UsageError
from infer_app.locations import AllowedPrefix, shown

MIB = 1 << 20


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
            AllowedPrefix.parse(text)
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
    max_rejected: str = "5%"  # more than this stops a day with exit code 3: a share (at least 10 images) or a number

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


class Settings(Section):
    """All sections."""

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


def rejection_budget(text: str, num_images: int) -> int:
    """How many of `num_images` may be rejected before the exit code says so: "5%" (at least 10) or "25"."""
    try:
        budget = max(10, int(float(text[:-1]) / 100 * num_images)) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a share such as 5% nor a number such as 25") from None
    if budget < 0:
        raise ValueError("it can't be negative")
    return budget
