"""`infer doctor`: checks everything a run needs and prints a fix for each failure."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from datetime import date
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

from infer_app import __version__
from infer_app.answers.missing_prediction import time_column
from infer_app.cli.model.model import known_in_use
from infer_app.database.engine.connect import Database
from infer_app.database.engine.sqlite import HINT_DAMAGED, check_writable, is_disk_full
from infer_app.database.known_database import describe_known
from infer_app.database.listing.image_registry import count_images
from infer_app.database.listing.left_out import NEEDED
from infer_app.database.listing.source import Source
from infer_app.database.project_database import open_project_database, open_results_database, open_source, read_limits
from infer_app.database.results.dry_run_database import RolledBack, find_unwritable
from infer_app.database.results.schema import database_id, images, metadata, thresholds
from infer_app.day import Day, parse_date
from infer_app.domain import INSTALL_DECODER, ImageRef
from infer_app.errors import EXIT_OK, DatabaseUnavailable, InferError, StorageUnavailable, UsageError, most_severe
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.open_handler import OpenCpuHandler
from infer_app.images.decode.decoder import decoder_name, has_turbo
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.read_image import refused_among
from infer_app.images.read.refusals import describe_refusal, how_to_allow, nothing_allowed
from infer_app.machine import usable_cores
from infer_app.models.artifact.models_folder import find_artifact
from infer_app.models.runtimes.gpu_probe import Host, describe_host
from infer_app.models.sources.library import require_library
from infer_app.pipeline.executors import check_nodes
from infer_app.pipeline.files.watched_folders import WatchedFolders
from infer_app.pipeline.flow.outage_guard import MAX_FAILED_READS
from infer_app.pipeline.planning.choose_models import choose_artifacts, choose_names
from infer_app.pipeline.planning.execution_plan import broken_tensorrt, plan_run
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printable import one_line
from infer_app.telemetry.printed_options import with_config
from infer_app.versions import find_mismatches, missing_decoders, recorded_versions

LITTLE_DISK_BYTES = 1 << 30
SAMPLED_IMAGES = 20  # on each node of a cluster


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; for a failure with the fix and the exit code a run would end with."""

    check: str
    found: str
    fix: str = ""
    exit_code: int = EXIT_OK


Check = Callable[[LoadedSettings], Iterator[Finding]]


def examine(
    model: str | None, as_json: bool, config: Path | None, executor: str | None = None, ray_address: str | None = None
) -> int:
    """Print the findings; return the most severe exit code that a run would end with."""
    loaded = load_settings(config, {"run": {"model": model, "executor": executor}, "ray": {"address": ray_address}})
    with redirect_stdout(sys.stderr):  # output of the user's preprocess module must not mix with ours
        findings = [finding for check in CHECKS for finding in _run_check(check, loaded)]
    exit_code = most_severe([finding.exit_code for finding in findings])
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "exit_code": exit_code}))
        return exit_code
    for finding in findings:
        sign = "FAIL" if finding.exit_code else "note" if finding.fix else "ok"
        print(f"{sign:4}  {finding.check}: {one_line(finding.found)}")
        if finding.fix:
            print(f"      fix: {one_line(with_config(finding.fix))}")
    return exit_code


def _run_check(check: Check, loaded: LoadedSettings) -> Iterator[Finding]:
    """Yield the findings of a check; an error is one too, so that the other checks are still made."""
    try:
        yield from check(loaded)
    except InferError as error:
        yield Finding(check.__name__.strip("_"), error.message, error.hint, error.exit_code)


def _program(_: LoadedSettings) -> Iterator[Finding]:
    yield Finding(
        "program", f"infer_app {__version__}, Python {platform.python_version()}, {counted(usable_cores(), 'core')}"
    )


def _versions(_: LoadedSettings) -> Iterator[Finding]:
    """Compare what is installed with what this program is made for."""
    wrong = list(find_mismatches())
    for one in wrong:
        found = f"{one.name} is not installed" if one.installed is None else f"{one.name} {one.installed} is untested"
        yield Finding("versions", f"{found}: {one.required} is required", one.fix)
    if not wrong:
        known = recorded_versions()
        named = ", ".join(f"{name} {known[name]}" for name in ("torch", "openvino", "pillow") if name in known)
        yield Finding("versions", f"{named}: as required")
    try:
        if find_spec("torchvision"):
            require_library("torchvision")
    except InferError as error:  # a build may need it, a run does not
        yield Finding("versions", error.message, error.hint)


def _settings(loaded: LoadedSettings) -> Iterator[Finding]:
    changed = sum(1 for _, _, origin in loaded.flattened() if origin != "default")
    yield Finding("settings", f"{loaded.path}, {changed} set")
    _ = loaded.watched  # raises UsageError if it contradicts [source]


def _decoder(_: LoadedSettings) -> Iterator[Finding]:
    fix = "" if has_turbo() else "install libturbojpeg (apt-get install libturbojpeg0): JPEGs decode 1.5 times faster"
    yield Finding("decoder", decoder_name(), fix)
    if missing := missing_decoders():
        names = " and ".join(sorted(reason.partition("_")[0].upper() for reason in missing))
        yield Finding("decoder", f"{names} images are rejected until their decoder is installed", INSTALL_DECODER)


def _database(loaded: LoadedSettings) -> Iterator[Finding]:
    with open_results_database(loaded, read_only=True) as database:
        known, fix = describe_known(loaded)
        yield Finding("database", f"{database.shown_url}, schema up to date{known}", fix)
        if database.is_sqlite:
            with database.read() as connection:
                problem = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if problem != "ok":
                yield Finding("database", str(problem), HINT_DAMAGED, DatabaseUnavailable.exit_code)
        with open_source(loaded, database) as source:
            yield from _source(loaded, source, is_remote=source.database is not database)
        if loaded.lists_own_images:
            yield Finding("images", f"{count_images(database):,} registered")
        file = database.sqlite_file
        if file is None:
            yield from _rights(database, loaded.lists_own_images)
    if file is not None:
        free = shutil.disk_usage(file.parent).free
        fix = "free some space: a full disk ends a run" if free < LITTLE_DISK_BYTES else ""
        exit_code = DatabaseUnavailable.exit_code if is_disk_full(file) else EXIT_OK
        yield Finding("disk", f"{free / (1 << 30):.1f} GiB free beside the database", fix, exit_code)
        check_writable(file)


def _rights(database: Database, lists_own_images: bool) -> Iterator[Finding]:
    """Check that the role may write our tables, of which an upgrade by another role may have added some."""
    ours = [table for table in metadata.sorted_tables if lists_own_images or table is not images]
    with RolledBack(database.url) as rolled_back:
        refused = find_unwritable(rolled_back, ours)
    if refused:
        is_only_read = {*refused} <= {database_id.name, thresholds.name}  # by runs
        exit_code = EXIT_OK if is_only_read else DatabaseUnavailable.exit_code
        fix = "grant this role SELECT, INSERT, UPDATE and DELETE on them: `infer db upgrade` may have added tables"
        yield Finding("rights", f"{', '.join(refused)} can't be written", fix, exit_code)
    else:
        yield Finding("rights", f"{counted(len(ours), 'table')} can be written")


def _source(loaded: LoadedSettings, source: Source, is_remote: bool) -> Iterator[Finding]:
    if is_remote:
        yield Finding("source", f"{source.database.shown_url} is only read")
    zone = loaded.run.time_zone
    today = Day.of(parse_date("today", zone), zone)
    nearest = source.latest_date(today) or source.nearest_date(today)  # or the first of those in the future
    described = f"latest images on {nearest}" if nearest else "no images yet"
    fix = "" if nearest else _how_to_list(loaded)
    timeless = source.count_without_time()
    if timeless:
        found = f"{timeless:,} {'image has' if timeless == 1 else 'images have'} no time, so no run covers them"
        yield Finding("source", found, f"give each a time in {time_column(loaded)}")
    settings = loaded.source
    name = settings.table if settings.query is None else "the query of [source]"
    yield Finding("source", f"{name}: {described}; days begin in {zone}", fix)
    if loaded.roots or loaded.remote_access.places or not loaded.lists_own_images:  # otherwise _roots reports it
        yield from _locations(loaded, source, nearest)


def _how_to_list(loaded: LoadedSettings) -> str:
    if loaded.watched:
        return f"put images into {loaded.watched[0]}: `infer run` registers them"
    return "`infer images add FOLDER`, or name your own table in [source]"


def _locations(loaded: LoadedSettings, source: Source, nearest: date | None) -> Iterator[Finding]:
    """Check the locations of the first images of each day of a run: a run ends if none is allowed."""
    try:
        list(WatchedFolders(loaded, source.database).follow_moved(dry_run=True))
    except UsageError as moved:  # no location is allowed until a run has recorded it
        yield Finding("locations", moved.message, moved.hint)
        return
    zone, limits = loaded.run.time_zone, read_limits(loaded)
    yesterday = Day.of(parse_date("yesterday", zone), zone)
    days = {yesterday.before(n).date for n in range(loaded.run.lookback + 1)}
    num_images = num_refused = 0
    for day in sorted(days if nearest is None else {*days, nearest}):
        if left_out := source.find_left_out(Day.of(day, zone)).text:
            yield Finding("source", left_out, NEEDED, UsageError.exit_code)
        refs = _some_images(source, Day.of(day, zone), MAX_FAILED_READS)
        refused = refused_among(refs, limits)
        num_images, num_refused = num_images + len(refs), num_refused + len(refused)
        if refused and len(refused) == len(refs):
            error = nothing_allowed(refused, limits)
            yield Finding("locations", f"{day}: {error}", error.hint, error.exit_code)
        elif refused:
            found = f"no allowed location: {len(refused):,} of {counted(len(refs), 'image')}, for example"
            fix = how_to_allow(refused[0], limits)
            yield Finding("locations", f"{day}: {found} {describe_refusal(refused[0], limits)}", fix)
    if num_images and not num_refused:
        yield Finding("locations", f"{num_images:,} checked, all are allowed")


def _roots(loaded: LoadedSettings) -> Iterator[Finding]:
    if not loaded.roots and not loaded.remote_access.places and loaded.lists_own_images:
        yield Finding("roots", "none: no image may be read", "`infer images add FOLDER`, or set [images] watch", 2)
    for root in loaded.roots:
        try:
            empty = next(root.iterdir(), None) is None
        except OSError as error:
            hint = "is the image storage mounted and readable? infer.toml names it in [images], or in [source] base"
            raise StorageUnavailable(f"{root}: {error.strerror}", hint) from None
        if empty:
            hint = "put your images there; if they should be there, is the image storage mounted?"
            raise StorageUnavailable(f"{root} is empty", hint)
        is_watched = root in loaded.watched
        yield Finding("roots", f"{root} is there" + (", and a run registers what is new in it" if is_watched else ""))


def _map(loaded: LoadedSettings) -> Iterator[Finding]:
    for recorded, here in loaded.path_map.folders:
        folder = Path(here or "/")
        if not folder.is_dir():
            raise StorageUnavailable(f"{folder} is no folder here", "is the image storage mounted?")
        allowed = any(folder.is_relative_to(root) or root.is_relative_to(folder) for root in loaded.roots)
        fix = "" if allowed else f"nothing in it may be read: add {folder} to [images] roots"
        yield Finding("map", f"what is recorded in {recorded or '/'} is read in {folder}", fix)


def _remote(loaded: LoadedSettings) -> Iterator[Finding]:
    access = loaded.remote_access
    if not access.places:
        return
    from infer_app.images.read.remote import probe  # most projects have nothing remote

    for place in access.places:
        try:
            yield Finding("remote", f"{place} {probe(place, access)}")
        except InferError as error:  # the other places are checked too
            yield Finding("remote", error.message, error.hint, error.exit_code)


def _gpu(_: LoadedSettings) -> Iterator[Finding]:
    """Check that torch can use the GPU, if the machine has one."""
    host = describe_host()
    if host.gpu is None:
        yield Finding("gpu", "none is found: models run on the CPU")
    elif host.cuda is None:
        yield Finding("gpu", f"{host.gpu.name}, but torch {host.torch} has no CUDA", "install torch's CUDA build")
    else:
        capability = host.gpu.compute_capability
        yield Finding("gpu", f"{host.gpu.name}, compute capability {capability}, torch {host.torch}, CUDA {host.cuda}")
    yield from _tensorrt(host)


def _tensorrt(host: Host) -> Iterator[Finding]:
    if host.torch_tensorrt is None:
        if host.gpu is not None:
            yield Finding("tensorrt", "torch-tensorrt is not installed", "pip install 'infer_app[trt]'")
        return
    versions = f"torch-tensorrt {host.torch_tensorrt}, TensorRT {host.tensorrt}"
    found, fix = broken_tensorrt() or (f"{versions}, plans embedded in format {host.abi}", "")
    yield Finding("tensorrt", found, fix)


def _model(loaded: LoadedSettings) -> Iterator[Finding]:
    in_use = known_in_use(loaded.path)
    if in_use is None:  # said by _database; the models are checked all the same
        artifacts = [find_artifact(loaded.models_folder, name) for name in choose_names(loaded)]
    else:
        artifacts = choose_artifacts(loaded, in_use)
    for artifact in artifacts:
        artifact.verify()
        images = loaded.images
        plan = plan_run(loaded, artifact)
        model = ModelSpec.of(artifact, plan.variant, plan.batch_size)
        OpenCpuHandler(HandlerSpec((model,), ReadLimits((), images.max_bytes), images.max_pixels))()
        manifest = artifact.manifest
        yield Finding("model", f"{manifest.name} {manifest.model_id} {plan.variant}: golden images as built")


def _ray(loaded: LoadedSettings) -> Iterator[Finding]:
    """Check that each node of the cluster has this version and can read some of the latest images."""
    if loaded.run.executor != "ray":
        return
    from infer_app.cluster.node_check import NodeCheck, check_node
    from infer_app.cluster.ray_cluster import Cluster, ClusterSpec

    zone = loaded.run.time_zone
    with open_project_database(loaded, read_only=True) as project:
        nearest = project.source.nearest_date(Day.of(parse_date("today", zone), zone))
        latest = _some_images(project.source, Day.of(nearest, zone), SAMPLED_IMAGES) if nearest else []
    locations = [ref.location for ref in latest]
    cluster = Cluster(ClusterSpec(**dict(loaded.ray)), usable_cores())
    try:
        answers = cluster.on_each_node(check_node, locations, read_limits(loaded))
    finally:
        cluster.close()
    try:
        check_nodes(loaded, len(answers))
    except UsageError as error:
        yield Finding("ray", str(error), error.hint, error.exit_code)
    for node, answer in answers.items():
        if not isinstance(answer, NodeCheck):
            fix = "install infer_app there, the same version: Ray's image of your cluster, or [ray] runtime_env"
            yield Finding("ray", f"{node.address}: {type(answer).__name__}: {answer}", fix, UsageError.exit_code)
            continue
        found = f"{answer.host} ({node.address}): {node.num_cpus} CPUs for Ray, infer_app {answer.infer_app}"
        if answer.infer_app != __version__:
            yield Finding("ray", found, f"install infer_app {__version__} there, as here", UsageError.exit_code)
        elif answer.unreachable:
            tried = counted(answer.num_tried, "image")
            found += f"; can't read {len(answer.unreachable)} of {tried}: {answer.unreachable[0]}"
            fix = "mount the image storage on every node, or use one that all reach ([remote])"
            yield Finding("ray", found, fix, StorageUnavailable.exit_code)
        else:
            yield Finding("ray", f"{found}, reads {answer.num_tried} of {counted(answer.num_tried, 'image')}")


def _some_images(source: Source, day: Day, count: int) -> list[ImageRef]:
    """Return the first images of a day, whether or not they have a result."""
    new_for_none = source.select_pages(day, "")
    return [new.ref for new in islice(chain.from_iterable(new_for_none), count)]


CHECKS: tuple[Check, ...] = (
    _program,
    _versions,
    _settings,
    _decoder,
    _gpu,
    _database,
    _roots,
    _map,
    _remote,
    _model,
    _ray,
)
