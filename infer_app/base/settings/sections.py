"""Define the sections and keys of infer.toml, with their types and defaults.

The comments behind the keys are the text of the settings reference.
"""

import re
import sys
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator

from infer_app.base.day import find_zone
from infer_app.base.errors import UsageError
from infer_app.base.locations import AllowedPrefix, shown

MIB = 1 << 20
MAX_WORKERS = 1024  # each is a process
NAME_CODES = {"Y": r"\d{4}", "y": r"\d\d", "m": r"\d\d", "d": r"\d\d", "H": r"\d\d", "M": r"\d\d", "S": r"\d\d"}


def _check_zone(name: str) -> str:
    try:
        find_zone(name)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return name


def _require_list(names: object) -> object:
    if isinstance(names, str):
        raise ValueError('a list is needed, such as ["a", "b"]')
    return names


def _require_folder(path: object) -> object:
    if "://" in str(path):
        raise ValueError("it is a folder of this machine; for URLs write a query: 'https://…/' || name")
    return path


def _check_prefixes(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            AllowedPrefix.parse(text)
        except ValueError as error:
            raise ValueError(f"{shown(text)!r}: {error}") from None
    return texts


def _check_folders(folders: dict[str, str]) -> dict[str, str]:
    for path in (*folders, *folders.values()):
        if not path.startswith("/") or ".." in path.split("/") or "//" in path:
            raise ValueError(f"{path!r} is not an absolute path without `..` and `//`")
    stripped = [path.rstrip("/") for path in folders]
    if len(set(stripped)) < len(stripped):
        raise ValueError("a folder is named twice")
    return folders


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _check_camera(text: str) -> str:
    if text.startswith("folder:") and not re.fullmatch(r"folder:[1-9]\d?", text):
        raise ValueError(f"{text!r}: folder:1 is the first folder of a location, folder:2 the second")
    return text


def _check_name_pattern(pattern: str) -> str:
    found = re.findall("%(.?)", pattern)
    codes = {*found} - {"%"}
    is_sound = codes <= NAME_CODES.keys() and len(codes) == len(found) - found.count("%")
    if not is_sound or not {"m", "d", "H", "M"} <= codes or not codes & {"y", "Y"}:
        known = " ".join(f"%{code}" for code in NAME_CODES)
        raise ValueError(f"{pattern!r}: it needs year, month, day, hour and minute, each once, and knows {known}")
    return pattern


def _as_seconds(value: object) -> object:
    """Return the seconds of a text such as 60s, 30min or 2h; other values as they are."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|h)", value) if isinstance(value, str) else None
    if isinstance(value, str) and found is None:
        raise ValueError(f"{value!r} is no time span such as 60s, 30min or 2h")
    return value if found is None else float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]]


Zone = Annotated[str, AfterValidator(_check_zone)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DatabaseSettings(Section):
    url: SecretStr = SecretStr(
        "sqlite:///infer.db"
    )  # any SQLAlchemy URL; a relative SQLite path starts at the folder of infer.toml
    results_schema: str | None = Field(None, pattern=r"^[a-z_][a-z0-9_]{0,62}$")  # PostgreSQL: the schema of our tables
    project: str | None = Field(None, pattern=r"^[\w.-]{1,64}$")  # its id, where no infer.database-id can be written


class SourceSettings(Section):
    """The table that lists the day's images: our own, or yours by column names. It is only read."""

    database_url: SecretStr | None = None  # of the database that lists the images, if it is not that of the results
    table: str = "infer_images"  # a table or view, as `schema.name` if needed
    query: str | None = None  # a SELECT used instead of `table`
    id: str = "id"  # the column that identifies an image
    location: str = "location"  # the column with its path or URL
    base: Annotated[Path, BeforeValidator(_require_folder)] | None = None  # the folder that relative locations start at
    bytes: str | None = (
        None  # a column that contains the image itself; a row without is read from a `location` that is set
    )
    time: str = "added_at"  # the column that determines an image's day
    time_zone: Zone | None = None  # of a `time` column that has none; our own table is in UTC
    camera: Annotated[str, AfterValidator(_check_camera)] | None = (
        None  # a column that names an image's camera, or folder:1, the first folder of its location
    )
    taken: str | None = None  # a column that tells when an image was taken; where it has none, its EXIF does
    taken_in_name: Annotated[str, AfterValidator(_check_name_pattern)] | None = (
        None  # how the names of files without EXIF tell it, as "%Y%m%d_%H%M%S"
    )

    @property
    def has_files_too(self) -> bool:
        """Return whether rows without bytes are read from their locations: both columns are named."""
        return self.bytes is not None and "location" in self.model_fields_set

    @property
    def camera_column(self) -> str | None:
        """Return the column that names cameras, or None if it is a folder or nothing."""
        return None if self.camera is None or self.camera.startswith("folder:") else self.camera

    @property
    def camera_folder(self) -> int | None:
        """Return which folder of a location is the camera, from 1 on."""
        return int(self.camera.removeprefix("folder:")) if self.camera and self.camera != self.camera_column else None

    @property
    def time_column(self) -> str:
        """Return what holds the images' times, for messages."""
        return f"column {self.time} of {self.table if self.query is None else 'the query of [source]'}"


class ImagesSettings(Section):
    watch: Annotated[
        tuple[Path, ...], BeforeValidator(_require_list)
    ] = ()  # folders whose new images a run registers first, by their own dates; they may be read
    day: Literal["file", "taken"] = "file"  # what dates a watched image; taken: its camera, else its file
    exclude: Annotated[
        tuple[str, ...], BeforeValidator(_require_list)
    ] = ()  # names, or paths below the folder, that are not registered, as ["*_thumb.jpg", "cam1/tests"]; in any case
    roots: tuple[Path, ...] = ()  # folders that images may be read from; none: [source] base, if there is one
    map: Annotated[dict[str, str], AfterValidator(_check_folders)] = {}  # recorded folders and where they are here
    max_bytes: int = Field(256 * MIB, gt=0, le=1 << 40)  # of a file; a larger one is rejected without being read
    max_pixels: int = Field(64_000_000, gt=0, le=1 << 40)  # width times height; a larger image is rejected undecoded
    timeout_s: float = Field(30.0, gt=0, le=86_400)  # for one image: reading, then decoding


class EventsSettings(Section):
    """Pictures of one camera that follow each other are one event, however many they are."""

    gap: Annotated[float, BeforeValidator(_as_seconds), Field(gt=0, le=604_800)] | None = (
        None  # as "60s", "30min" or "2h": a longer time to the next picture begins a new event; unset: no events
    )
    expect: Literal["daily"] | None = None  # "daily": each camera is to bring images on each day on which any does


class ExportSettings(Section):
    species: Path | None = None  # a CSV file of what labels mean: label,scientific_name,taxon_id,rank


class RemoteSettings(Section):
    """Images at https://, s3://, gs:// and az:// URLs. Only those that `allow` covers are read."""

    allow: Annotated[
        tuple[str, ...], BeforeValidator(_require_list), AfterValidator(_check_prefixes)
    ] = ()  # URLs; all URLs below them are allowed
    allow_private_hosts: Annotated[
        tuple[str, ...], BeforeValidator(_require_list)
    ] = ()  # hosts in `allow` that may have addresses of a local network
    retries: int = Field(3, ge=0, le=10)  # of a read that failed temporarily, within [images] timeout_s
    concurrency: int = Field(8, ge=1, le=64)  # simultaneous reads of each worker


class ModelsSettings(Section):
    folder: Path = Path("models")  # where `infer model build` puts models


class RunSettings(Section):
    model: str | None = None  # a name, which means its version in use, or name@id for one version; left out: all names
    models: Annotated[
        tuple[str, ...], BeforeValidator(_require_list)
    ] = ()  # instead of `model`: several in one run, which reads and decodes images once for all
    time_zone: Zone = "UTC"  # in which days begin and end
    lookback: int = Field(3, ge=0, le=366)  # earlier days that are searched again for late images
    executor: Literal["auto", "cpu", "cuda", "ray"] = (
        "auto"  # auto: by the device; cuda also runs on a CPU, to try it without a GPU; ray: on a cluster
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU if the model has a variant for it; cuda: required
    precision: Literal["full", "half", "int8"] | None = (
        None  # half: bf16 on a CPU that computes it, fp16 or bf16 on a GPU. Unless set: full on a CPU, half on a GPU
    )
    workers: int = Field(0, ge=0, le=MAX_WORKERS)  # processes; 0: one for each core, as many as fit into memory
    chunk_size: int = Field(0, ge=0, le=256)  # images per transaction; 0: a quarter of a second's work
    wait: bool = False  # wait for another run of the same day, instead of ending with exit code 13
    max_rejected: Annotated[str, BeforeValidator(_number_as_text)] = (
        "5%"  # more rejections stop a day with exit code 3: a share (at least 10 images) or a number
    )

    @field_validator("max_rejected")
    @classmethod
    def _check_max_rejected(cls, text: str) -> str:
        rejection_budget(text, 0)
        return text


class RaySettings(Section):
    """The Ray cluster for `executor = "ray"`. An actor is a whole executor on a node, with workers of its own."""

    address: str = "local"  # auto: the cluster of this machine; host:port; local: only this machine, for the run
    actors: int = Field(0, ge=0, le=MAX_WORKERS)  # 0: as many as fit on the nodes; more wait for an autoscaler
    num_cpus: int = Field(0, ge=0, le=MAX_WORKERS)  # per actor, with one worker each; 0: those of the smallest node
    num_gpus: float = Field(0.0, ge=0, le=64)  # per actor; with a GPU it is the `cuda` executor
    runtime_env: dict[str, object] = Field({}, repr=False)  # passed to Ray's nodes; infer_app need not be in it


def _check_address(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("it must begin with http:// or https:// and a host")
    return url


def _check_prom_file(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError("its name must end in .prom: the textfile collector reads no other")
    return path


Address = Annotated[SecretStr, AfterValidator(_check_address)]  # its path is often a password


class LogSettings(Section):
    format: Literal["text", "json"] = "text"  # of the lines on standard error; json: one object per line


class MetricsSettings(Section):
    textfile: Annotated[Path, AfterValidator(_check_prom_file)] | None = None  # for node_exporter's textfile collector


class PingSettings(Section):
    """A monitor such as healthchecks.io: it gets a run's start and end, and raises an alarm if they don't come."""

    url: Address | None = None  # gets a POST at the start (/start) and at the end (/EXIT_CODE unless it is 0)


class WebhookSettings(Section):
    url: Address | None = None  # receives the output of `infer run --json` by POST


class Settings(Section):
    """All sections of infer.toml."""

    database: DatabaseSettings = DatabaseSettings()
    source: SourceSettings = SourceSettings()
    images: ImagesSettings = ImagesSettings()
    events: EventsSettings = EventsSettings()
    export: ExportSettings = ExportSettings()
    remote: RemoteSettings = RemoteSettings()
    models: ModelsSettings = ModelsSettings()
    run: RunSettings = RunSettings()
    ray: RaySettings = RaySettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    ping: PingSettings = PingSettings()
    webhook: WebhookSettings = WebhookSettings()


def rejection_budget(text: str, num_images: int) -> int:
    """Return how many of `num_images` may be rejected before the run fails, for "5%" (at least 10) or "25".

    Raises ValueError for any other text.
    """
    try:
        number = float(text[:-1]) if text.endswith("%") else int(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a share such as 5% nor a number such as 25") from None
    if not 0 <= number <= (100 if text.endswith("%") else sys.maxsize):
        raise ValueError(f"{text!r} is not between 0 and 100%" if text.endswith("%") else "it can't be negative")
    return max(10, int(number / 100 * num_images)) if text.endswith("%") else int(number)
