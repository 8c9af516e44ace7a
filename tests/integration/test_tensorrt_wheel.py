"""Our calls, and the stand-in's signatures, against the real torch-tensorrt: its wheel is unpacked and read, since
without TensorRT's libraries it can't be imported. How that failure is told is tested with it too.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from infer_app.base.packages import install
from infer_app.predict import execution_plan
from infer_app.predict.runtimes import gpu_probe, tensorrt
from infer_app.predict.workers.isolated_call import run_in_process
from tests.standin.build import HERE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VERSION = "2.13.0"
ROOT = Path(__file__).parents[2]
EMBED, CONVERT = "embed_engine_in_new_module", "convert_exported_program_to_serialized_trt_engine"


@pytest.fixture(scope="session")
def package(request):
    """The unpacked wheel, kept between sessions."""
    folder = request.config.cache.mkdir(f"torch-tensorrt-{VERSION}")
    if not (folder / "torch_tensorrt").exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", folder]
        run = subprocess.run([*pip, f"torch-tensorrt=={VERSION}"], capture_output=True, text=True)
        wheels = list(folder.glob("*.whl"))
        if run.returncode or not wheels:
            pytest.skip(f"the wheel of torch-tensorrt {VERSION} can't be had: {run.stderr.strip().splitlines()[-1:]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(folder)
    return folder / "torch_tensorrt"


@pytest.fixture
def broken(package, monkeypatch):
    """This machine with the wheel and without TensorRT."""
    if gpu_probe.describe_host().tensorrt is not None:
        pytest.skip("TensorRT is installed here")
    monkeypatch.syspath_prepend(package.parent)
    execution_plan.broken_tensorrt.cache_clear()
    yield package.parent
    execution_plan.broken_tensorrt.cache_clear()


def function(path, name):
    """The first function of a name in a file."""
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return next(node for node in found if node.name == name)


def parameters(path, name):
    """(positional, keyword only): their names in order."""
    arguments = function(path, name).args
    return [one.arg for one in arguments.args], [one.arg for one in arguments.kwonlyargs]


def our_call(name):
    """(number of positional arguments, keywords) of the one call that models/tensorrt.py makes of a function."""
    tree = ast.parse(Path(tensorrt.__file__).read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    (call,) = [call for call in calls if call.func.attr == name]
    return len(call.args), [keyword.arg for keyword in call.keywords]


@pytest.mark.parametrize(("file", "name"), [("ts/_compiler.py", EMBED), ("dynamo/_compiler.py", CONVERT)])
def test_our_calls_and_the_stand_in_fit_the_real_signatures(package, file, name):
    positional, keyword_only = parameters(package / file, name)
    num_given, keywords = our_call(name)
    assert num_given == 1
    assert not set(keywords) - set(positional[num_given:]) - set(keyword_only)
    required = len(positional) - len(function(package / file, name).args.defaults)
    assert required == num_given
    ours, our_keywords = parameters(HERE / "torch_tensorrt" / file.split("/")[0] / "__init__.py", name)
    assert ours == positional[: len(ours)]
    assert set(our_keywords) <= set(keyword_only)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("ts/__init__.py", "from torch_tensorrt.ts._compiler import *"),
        ("dynamo/__init__.py", CONVERT),
        ("__init__.py", "import Device"),
        ("__init__.py", "import Input"),
        ("_enums.py", "torch.uint8"),
        ("_Device.py", "gpu_id"),
        ("ts/_Device.py", "d.gpu_id"),  # so a torch.device would fail, where there is a GPU only
        ("dynamo/conversion/_TRTInterpreter.py", 'name = f"output{i}"'),
    ],
)
def test_names_are_where_we_look_for_them(package, file, text):
    assert text in (package / file).read_text()
    read = ast.unparse(function(package / "_Input.py", "__init__"))
    assert {name for name in our_call("Input")[1] if f"kwargs['{name}']" not in read} == set()
    assert our_call("Device") == (0, ["gpu_id"])


def test_the_stand_in_has_the_real_fields_in_the_real_order(package):
    layout = ast.parse((package / "dynamo/runtime/_serialized_engine_layout.py").read_text())
    (fields,) = [node for node in ast.walk(layout) if isinstance(node, ast.ClassDef)]
    real = [(node.targets[0].id, node.value.value) for node in fields.body if isinstance(node, ast.Assign)]
    code = (HERE / "tensorrt_runtime.cpp").read_text()
    listed = re.search(r"enum Field \{(.*?)\};", code, re.DOTALL)[1]
    names = [name.split("=")[0].strip() for name in listed.split(",") if name.strip()]
    assert [*real, ("SERIALIZATION_LEN", len(real))] == [(name, number) for number, name in enumerate(names)]


@pytest.mark.parametrize(
    "file", ["include/torch_tensorrt/core/runtime/runtime.h", "dynamo/runtime/_serialized_engine_layout.py"]
)
def test_the_format_of_embedded_plans_is_the_one_we_expect_of_this_version(package, file):
    found = re.search(r'ABI_VERSION = "(\d+)"', (package / file).read_text())
    assert found[1] == gpu_probe.Host("", torch_tensorrt=VERSION).abi


def test_the_runtime_refuses_in_the_words_that_we_look_for(package):
    """In its compiled library: a message that changes would be told raw."""
    library = (package / "lib/libtorchtrt_runtime.so").read_bytes()
    compiled = [sign for sign, _, _ in tensorrt._REFUSALS if sign != "Unknown type name"]  # which is torch's own
    assert [sign for sign in compiled if sign.encode() not in library] == []


def test_the_real_package_without_tensorrt_is_told_and_prints_nothing(broken, capfd):
    """It raises a bare Exception and prints, on standard output where the answer of a command belongs."""
    message, hint = run_in_process(execution_plan.why_tensorrt_fails)
    assert message.startswith("torch-tensorrt can't be loaded: ")
    assert f"found torch-tensorrt {VERSION} with torch " in hint
    assert f"TensorRT missing: they must be an exact set, {install('trt')}" in hint
    assert capfd.readouterr().out == ""


def test_a_plan_is_passed_over_where_torch_tensorrt_is_installed_and_does_not_load(broken, monkeypatch):
    monkeypatch.setattr(execution_plan, "missing_for", lambda *_: None)  # as where GPU and versions are the right ones
    assert execution_plan.missing_or_broken("trt-fp16", {}).startswith("torch-tensorrt can't be loaded: ")
    assert execution_plan.missing_or_broken("cuda-fp16", {}) is None


def test_doctor_explains_it_on_standard_error_and_in_its_answer(broken, project):
    project.add_photos(1)
    path = os.pathsep.join([str(broken), os.environ.get("PYTHONPATH", "")])
    findings = project.infer_json("doctor", PYTHONPATH=path)["findings"]
    (found,) = [finding for finding in findings if finding["check"] == "tensorrt"]
    assert found["found"].startswith("torch-tensorrt can't be loaded: ")
    assert f"found torch-tensorrt {VERSION} with torch " in found["fix"]
    assert found["exit_code"] == 0  # models run without it


def test_the_versions_in_the_image_and_the_extra_belong_together(package):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["trt"][-1] == f"torch-tensorrt=={VERSION}; platform_system == 'Linux'"
    pins = dict(re.findall(r"^ARG (\w+)=([0-9][0-9.*]+)$", (ROOT / "docker/Dockerfile.gpu").read_text(), re.MULTILINE))
    metadata = next(package.parent.glob("torch_tensorrt-*.dist-info")) / "METADATA"
    lines = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.MULTILINE)
    needs = {need.name: need.specifier for need in map(Requirement, lines)}
    assert pins["TORCH_TENSORRT"] == VERSION
    assert needs["torch"].contains(pins["TORCH"])
    assert needs["tensorrt"].contains(pins["TENSORRT"].replace("*", "0"))
