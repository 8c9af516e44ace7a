"""The far end of the `ray` executor, without Ray: calls from several threads, workers of its own, real photos."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from infer_app.cluster.node_actor import ActorSpec, ExecutorActor
from infer_app.domain import Chunk
from infer_app.errors import ModelError, StorageUnavailable
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.images.read.local_files import ReadLimits
from infer_app.model_variants import TORCHSCRIPT
from infer_app.models.artifact import bundle
from infer_app.pipeline.executors import RingSpec, open_cpu_pool, open_cuda_pool
from infer_app.recipe import Size
from tests.support.networks import built, built_colors
from tests.support.photos import save_colored

SIZE = 16
COLORS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("actor")


@pytest.fixture(scope="module")
def artifact(folder):
    return built_colors(folder)


@pytest.fixture(scope="module")
def parcel(artifact):
    return bundle.pack(artifact, TORCHSCRIPT)


@pytest.fixture(scope="module")
def photos(folder):
    """A root, and refs of 30 photos in it."""
    root = folder / "photos"
    root.mkdir()
    return root, save_colored(root, 30)


@pytest.fixture
def open_actor(folder, photos, artifact, parcel, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    ours = logging.getLogger("infer_app")
    level, handlers, actors = ours.level, ours.handlers[:], []

    def open_one(*parcels, ring_spec=None):
        model = replace(ModelSpec.of(artifact, TORCHSCRIPT), artifact=folder / "elsewhere")
        handler = HandlerSpec((model,), ReadLimits((photos[0],), 1 << 20), 1 << 20)
        open_pool = partial(open_cpu_pool, timeout_s=30.0)
        if ring_spec is not None:
            open_pool = partial(open_cuda_pool, timeout_s=30.0, ring_spec=ring_spec)
        actors.append(ExecutorActor(ActorSpec(handler, 2, open_pool, logging.INFO), parcels or [parcel]))
        return actors[-1]

    yield open_one
    for actor in actors:
        if hasattr(actor, "_pool"):
            actor._pool.close()
    ours.setLevel(level)
    ours.handlers = handlers


@pytest.mark.parametrize("ring_spec", [None, RingSpec(8, Size.square(SIZE), ("cpu",))], ids=["cpu", "ring"])
def test_each_call_gets_the_answer_to_its_own_chunk(open_actor, photos, ring_spec):
    """Also where chunks have one number, as parts of one that was split."""
    _, refs = photos
    actor = open_actor(ring_spec=ring_spec)
    assert len(actor.opened().host) > 0
    chunks = [Chunk(7, tuple(refs[first : first + 3])) for first in range(0, 30, 3)]
    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(actor.process, chunks))
    for chunk, answer in zip(chunks, answers, strict=True):
        found = {one.ref: one.output.label for result in answer.results for one in result.predictions}
        assert found == {ref: COLORS[int(ref.image_id) % 3] for ref in chunk.refs}
        assert {result.number for result in answer.results} == {7}


def test_a_model_that_can_not_be_opened_is_told_and_no_call_waits_for_it(open_actor, parcel, photos, folder):
    source = next(name for name in parcel.files if name.endswith(".ts"))
    shutil.rmtree(folder / "cache", ignore_errors=True)
    changed = dict(parcel.files) | {source: b"something else"}
    actor = open_actor(bundle.ModelBundle(changed, bundle._sha256(changed)))
    with pytest.raises(ModelError, match="changed since it was built"):
        actor.opened()
    with pytest.raises(ModelError):
        actor.process(Chunk(1, tuple(photos[1][:2])))


def test_a_bundle_of_another_network_is_refused(open_actor, tmp_path):
    """As if the driver had bundled what lies in the folder now."""
    other = bundle.pack(built(tmp_path), TORCHSCRIPT)
    with pytest.raises(ModelError, match="was changed since this run has opened it: it holds model"):
        open_actor(other).opened()


def test_a_root_that_is_gone_here_is_no_missing_image(open_actor, photos):
    root, refs = photos
    actor = open_actor()
    root.rename(root.with_name("unmounted"))
    try:
        with pytest.raises(StorageUnavailable, match="is gone or empty"):
            actor.process(Chunk(1, tuple(refs[:2])))
    finally:
        root.with_name("unmounted").rename(root)
