"""The far end of the `ray` executor, without Ray: workers of its own, and real photos."""

import logging
from dataclasses import replace
from functools import partial

import pytest

from infer_app.base.domain import Chunk
from infer_app.base.errors import StorageUnavailable
from infer_app.base.model_variants import TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.cluster.node_actor import ActorSpec, ExecutorActor
from infer_app.predict.executors import open_cpu_pool
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.workers import bundle
from tests.support.networks import built_colors
from tests.support.photos import save_colored


@pytest.fixture
def root(tmp_path):
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


@pytest.fixture
def actor(tmp_path, root, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ours = logging.getLogger("infer_app")
    level, handlers = ours.level, ours.handlers[:]
    artifact = built_colors(tmp_path)
    model = replace(ModelSpec.of(artifact, TORCHSCRIPT), artifact=tmp_path / "elsewhere")
    handler = HandlerSpec((model,), ReadLimits((root,), 1 << 20), 1 << 20)
    spec = ActorSpec(handler, 2, partial(open_cpu_pool, timeout_s=30.0), logging.INFO)
    opened = ExecutorActor(spec, [bundle.pack(artifact, TORCHSCRIPT)])
    yield opened
    opened._pool.close()
    ours.setLevel(level)
    ours.handlers = handlers


def test_a_root_that_is_gone_here_is_no_missing_image(actor, root):
    refs = save_colored(root, 2)
    root.rename(root.with_name("unmounted"))
    with pytest.raises(StorageUnavailable, match="is gone or empty"):
        actor.process(Chunk(1, tuple(refs)))
