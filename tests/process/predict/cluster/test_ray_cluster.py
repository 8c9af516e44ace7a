"""What a cluster does at its far end and on this machine, without Ray."""

import logging
import os
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from infer_app.base.domain import Chunk
from infer_app.base.errors import StorageUnavailable
from infer_app.base.model_variants import TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.cluster.node_actor import ActorSpec, ExecutorActor
from infer_app.predict.cluster.ray_cluster import _end_all_in
from infer_app.predict.executors import open_pool
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.workers import bundle
from tests.support.networks import built_colors
from tests.support.photos import save_colored


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_root_that_is_gone_on_a_node_is_no_missing_image(tmp_path, monkeypatch):
    """By an actor with workers of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(logging.getLogger("infer_app"), "handlers", [])
    artifact, root = built_colors(tmp_path), tmp_path / "photos"
    root.mkdir()
    model = replace(ModelSpec.of(artifact, TORCHSCRIPT), artifact=tmp_path / "elsewhere")
    handler = HandlerSpec((model,), ReadLimits((root,), 1 << 20), 1 << 20)
    spec = ActorSpec(handler, 2, partial(open_pool, timeout_s=30.0), logging.INFO)
    actor = ExecutorActor(spec, [bundle.pack(artifact, TORCHSCRIPT)])
    refs = save_colored(root, 2)
    root.rename(root.with_name("unmounted"))
    with closing(actor._pool), pytest.raises(StorageUnavailable, match="is gone or empty"):
        actor.process(Chunk(1, tuple(refs)))


def test_only_processes_of_the_folder_are_ended(tmp_path):
    folders = tmp_path / "ours", tmp_path / "ours-too"
    sleepers = [
        subprocess.Popen(["sleep", "60"], env=os.environ | {"TMPDIR": str(folder)})
        for folder in (*folders, folders[0] / "below")
    ]
    try:
        for sleeper in sleepers:  # until it has become what is asked for
            while b"sleep" not in Path(f"/proc/{sleeper.pid}/cmdline").read_bytes():
                pass
        _end_all_in(folders[0])
        assert sleepers[0].wait(10) == -signal.SIGKILL
        assert [sleeper.poll() for sleeper in sleepers[1:]] == [None, None]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
