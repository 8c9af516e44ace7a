"""Check that the models give what they gave at the build, here and on the nodes of a cluster."""

from collections.abc import Iterator, Mapping

from infer_app import __version__
from infer_app.artifact.models_folder import find_artifact
from infer_app.base.day import Day
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.base.machine import usable_cores
from infer_app.base.printing import counted
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.execution_plan import plan_run
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec, open_cpu_handler
from infer_app.run.planning.open_executors import check_nodes
from infer_app.run.preflight.database_checks import some_images
from infer_app.run.preflight.finding import Finding
from infer_app.tables.choose_models import choose_artifacts, choose_names, with_detectors
from infer_app.tables.project_database import open_project_database, read_limits

SAMPLED_IMAGES = 20  # on each node of a cluster


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
    from infer_app.predict.cluster.ray_cluster import Cluster, ClusterSpec

    zone = loaded.run.time_zone
    with open_project_database(loaded, read_only=True) as project:
        nearest = project.source.nearest_date(loaded.day("today"))
        latest = some_images(project.source, Day.of(nearest, zone), SAMPLED_IMAGES) if nearest else []
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
