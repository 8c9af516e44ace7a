import io
import pickle
import subprocess
import sys
import zipfile

import pytest
import torch

from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.predict.runtimes.torchscript import load_torchscript, make_cpu_variant, save_module
from tests.support.networks import MEAN, SIZE, STD, Means, NeedsMemoryForWhite, Network, traced

SPEC = InputSpec("float-nchw", MEAN, STD)


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def zipped(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (saved(Network().state_dict()), "torch.save makes, a state dict or checkpoint", "--weights"),
        (saved({"a": torch.ones(1)}, _use_new_zipfile_serialization=False), "a pickle", "--weights"),
        (pickle.dumps({"a": 1}), "a pickle", "--weights"),
        (b"", "not a TorchScript file", "torch.jit.save"),
        (b"\x89PNG garbage", "not a TorchScript file", "torch.jit.save"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "git lfs pull"),
        (zipped("a/b.txt"), "a zip file, but not TorchScript", "torch.jit.save"),
        (zipped("model/archive_format", "model/data/weights/x"), ".pt2 archive", "--weights"),
        (zipped("model/code/__torch__.py", "model/data.pkl"), "can't load this TorchScript file", "torch.jit.save"),
        (save_module(traced(Means()))[:1000], "a zip file that is cut off", "torch.jit.save"),
    ],
)
def test_what_is_not_torchscript_is_refused_with_what_to_do(source, message, hint):
    with pytest.raises(ModelError) as caught:
        load_torchscript(source)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_fusion_switch_of_the_process_is_put_back():
    before = torch.jit.onednn_fusion_enabled()
    make_cpu_variant(save_module(traced(Means())), SPEC, Size.square(SIZE))
    assert torch.jit.onednn_fusion_enabled() == before


RAISING = """
import gc, sys, warnings
warnings.simplefilter("ignore")
import torch
from infer_app.base.size import Size
from infer_app.artifact.specs import InputSpec
from infer_app.predict.runtimes.torchscript import make_cpu_variant

model = make_cpu_variant(open(sys.argv[1], "rb").read(), InputSpec(), Size.square(8))
gc.collect()
for _ in range(20):
    try:
        model(torch.full((1, 8, 8, 3), 255, dtype=torch.uint8))
    except RuntimeError as error:
        print(str(error).splitlines()[-1])
"""


def test_a_variant_that_raises_can_be_asked_again(tmp_path):
    """In a process of its own: torch would crash it if the module that was frozen were gone."""
    file = tmp_path / "model.ts"
    file.write_bytes(save_module(torch.jit.script(NeedsMemoryForWhite(0))))
    run = subprocess.run([sys.executable, "-c", RAISING, str(file)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("can't allocate memory") == 20


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'\nhip = None\n", "13.0"),
        ("cuda = '12.8'", "12.8"),
        ("cuda: Optional[str] = None", None),
    ],
)
def test_torch_s_cuda_is_read_without_importing_it(tmp_path, monkeypatch, text, cuda):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\n{text}\n")
    script = "from infer_app.predict.runtimes.gpu_probe import describe_host; print(describe_host().cuda)"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == f"{cuda}\n"
