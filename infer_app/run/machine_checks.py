"""Check the program, its packages, decoder and GPU, the settings, the places that images are read from, and the models.

Models are to give what they gave at the build, here and on the nodes of a cluster.
"""

import platform
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from infer_app import __version__
from infer_app.artifact.models_folder import find_artifact
from infer_app.base.day import Day
from infer_app.base.errors import NO_TORCH, InferError, StorageUnavailable, UsageError
from infer_app.base.machine import usable_cores
from infer_app.base.packages import (
    DISTRIBUTION,
    SOURCE,
    find_fault,
    find_mismatches,
    install,
    install_packages,
    installed_version,
    missing_decoders,
    recorded_packages,
)
from infer_app.base.printing import counted
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.execution_plan import broken_tensorrt, plan_run
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.open_handler import open_cpu_handler
from infer_app.predict.images.decode.decoder import decoder_name, has_turbo
from infer_app.predict.runtimes.gpu_probe import Host, describe_host
from infer_app.run.database_checks import Finding, some_images
from infer_app.run.group_run import check_nodes
from infer_app.tables.choose_models import choose_artifacts, choose_names, with_detectors
from infer_app.tables.project_database import open_project_database, read_limits

SAMPLED_IMAGES = 20  # on each node of a cluster


def check_program(_: LoadedSettings) -> Iterator[Finding]:
    yield Finding(
        "program", f"infer_app {__version__}, Python {platform.python_version()}, {counted(usable_cores(), 'core')}"
    )


def check_versions(_: LoadedSettings) -> Iterator[Finding]:
    """Compare what is installed with what this program is made for."""
    if installed_version(DISTRIBUTION) is None:
        yield Finding(
            "versions", "infer_app runs from its source, which tells no versions", install_packages("-e", str(SOURCE))
        )
    else:
        yield from _compare_versions()
    if find_spec("torch") and find_spec("torchvision") and (fault := find_fault("torchvision")):
        yield Finding("versions", *fault)  # a build may need it, a run does not


def _compare_versions() -> Iterator[Finding]:
    wrong = list(find_mismatches())
    for one in wrong:
        found = f"{one.name} is not installed" if one.installed is None else f"{one.name} {one.installed} is untested"
        yield Finding("versions", f"{found}: {one.required} is required", one.fix)
    if not wrong:
        known = recorded_packages()
        named = ", ".join(f"{name} {known[name]}" for name in ("torch", "openvino", "pillow") if name in known)
        yield Finding("versions", f"{named}: as required")


def check_decoder(_: LoadedSettings) -> Iterator[Finding]:
    fix = "" if has_turbo() else "install libturbojpeg (apt-get install libturbojpeg0): JPEGs decode 1.5 times faster"
    yield Finding("decoder", decoder_name(), fix)
    if missing := missing_decoders():
        names = " and ".join(sorted(reason.partition("_")[0].upper() for reason in missing))
        yield Finding("decoder", f"{names} images are rejected until their decoder is installed", install("heic"))


def check_gpu(_: LoadedSettings) -> Iterator[Finding]:
    return check_host(describe_host())


def check_host(host: Host) -> Iterator[Finding]:
    """Check that torch can use the GPU, if the machine has one."""
    if host.gpu is None:
        yield Finding("gpu", "none is found: models run on the CPU")
    elif host.torch is None:
        yield Finding("gpu", f"{host.gpu.name}, but {NO_TORCH}", install("torch"))
    elif host.cuda is None:
        yield Finding("gpu", f"{host.gpu.name}, but torch {host.torch} has no CUDA", "install torch's CUDA build")
    else:
        capability = host.gpu.compute_capability
        yield Finding("gpu", f"{host.gpu.name}, compute capability {capability}, torch {host.torch}, CUDA {host.cuda}")
    yield from _tensorrt(host)


def _tensorrt(host: Host) -> Iterator[Finding]:
    if host.torch_tensorrt is None:
        if host.gpu is not None:
            yield Finding("tensorrt", "torch-tensorrt is not installed", install("trt"))
        return
    versions = f"torch-tensorrt {host.torch_tensorrt}, TensorRT {host.tensorrt}"
    found, fix = broken_tensorrt() or (f"{versions}, plans embedded in format {host.abi}", "")
    yield Finding("tensorrt", found, fix)


def check_settings(loaded: LoadedSettings) -> Iterator[Finding]:
    changed = sum(1 for _, _, origin in loaded.flattened() if origin != "default")
    yield Finding("settings", f"{loaded.path}, {changed} set")
    _ = loaded.watched  # raises UsageError if it contradicts [source]


def check_roots(loaded: LoadedSettings) -> Iterator[Finding]:
    if not loaded.roots and not loaded.remote_access.places and loaded.lists_own_images:
        yield Finding("roots", "none: no image may be read", "`infer images add FOLDER`, or set [images] watch", 2)
    for root in loaded.roots:
        try:
            empty = next(root.iterdir(), None) is None and root not in loaded.watched  # which check_database looks into
        except OSError as error:
            hint = "is the image storage mounted and readable? infer.toml names it in [images], or in [source] base"
            raise StorageUnavailable(f"{root}: {error.strerror}", hint) from None
        if empty:
            hint = "put your images there; if they should be there, is the image storage mounted?"
            raise StorageUnavailable(f"{root} is empty", hint)
        is_watched = root in loaded.watched
        yield Finding("roots", f"{root} is there" + (", and a run registers what is new in it" if is_watched else ""))


def check_map(loaded: LoadedSettings) -> Iterator[Finding]:
    for recorded, here in loaded.path_map.folders:
        folder = Path(here or "/")
        if not folder.is_dir():
            raise StorageUnavailable(f"{folder} is no folder here", "is the image storage mounted?")
        allowed = any(folder.is_relative_to(root) or root.is_relative_to(folder) for root in loaded.roots)
        fix = "" if allowed else f"nothing in it may be read: add {folder} to [images] roots"
        yield Finding("map", f"what is recorded in {recorded or '/'} is read in {folder}", fix)


def check_remote(loaded: LoadedSettings) -> Iterator[Finding]:
    access = loaded.remote_access
    if not access.places:
        return
    from infer_app.predict.images.read.remote import probe  # most projects have nothing remote

    for place in access.places:
        try:
            yield Finding("remote", f"{place} {probe(place, access)}")
        except InferError as error:  # the other places are checked too
            yield Finding("remote", error.message, error.hint, error.exit_code)


def check_models(loaded: LoadedSettings, in_use: Mapping[str, str] | None) -> Iterator[Finding]:
    """Check the models of a plain run; `in_use` has the version in use of each name, None if that is not known."""
    if in_use is None:  # said by the check of the database; the models are checked all the same
        artifacts = [find_artifact(loaded.models_folder, name) for name in choose_names(loaded)]
    else:
        artifacts = with_detectors(loaded, choose_artifacts(loaded, in_use))
    for artifact in artifacts:
        artifact.verify()
        images = loaded.images
        plan = plan_run(loaded, artifact)
        model = ModelSpec.of(artifact, plan.variant, plan.batch_size)
        open_cpu_handler(HandlerSpec((model,), ReadLimits((), images.max_bytes), images.max_pixels))
        manifest = artifact.manifest
        yield Finding("model", f"{manifest.name} {manifest.model_id} {plan.variant}: golden images as built")


def check_ray(loaded: LoadedSettings) -> Iterator[Finding]:
    """Check that each node of the cluster has this version and can read some of the latest images."""
    if loaded.run.executor != "ray":
        return
    from infer_app.predict.cluster.node_actor import NodeCheck, check_node
    from infer_app.predict.cluster.ray_cluster import Cluster

    zone = loaded.run.time_zone
    with open_project_database(loaded, read_only=True) as project:
        nearest = project.source.nearest_date(loaded.day("today"))
        latest = some_images(project.source, Day.of(nearest, zone), SAMPLED_IMAGES) if nearest else []
    locations = [ref.location for ref in latest]
    cluster = Cluster(loaded.ray, usable_cores())
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
