"""Read a network from an ONNX file or OpenVINO's IR, and what the file says about its use."""

import difflib
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from torch import Tensor

from infer_app.base.errors import ModelError, UsageError, os_errors_as
from infer_app.base.size import Size
from infer_app.build.sources.export_metadata import model_api_facts, model_info
from infer_app.build.sources.onnx_file import DamagedOnnx, fold_external_data, metadata_props, onnx_facts
from infer_app.build.sources.source_facts import CONFIG, Fact, SourceFacts, Unsupported
from infer_app.build.sources.weights import describe_weights, read_weights, state_dicts_in
from infer_app.predict.runtimes.graph_input import describe_input, read_graph
from infer_app.predict.runtimes.torchscript import has_code

GRAPH_KINDS = {".onnx": "onnx", ".xml": "openvino"}  # by the name's ending


def graph_kind(source: str) -> str | None:
    """Return onnx or openvino for the name of such a file, None for any other source."""
    return GRAPH_KINDS.get(Path(source).suffix.lower())


def read_graph_files(path: Path) -> tuple[bytes, ...]:
    """Return an ONNX file with all of its weights, or both files of an IR.

    Raises UsageError for a file that is missing or of another kind, and ModelError for one that is damaged.
    """
    data = _read(path)
    if not data:
        raise ModelError(f"{path} is empty", "fetch or export it again")
    if data.startswith(b"version https://git-lfs"):
        raise ModelError(f"{path} is a Git LFS pointer, not the network itself", "fetch it: git lfs pull")
    if zipfile.is_zipfile(path):
        raise UsageError(
            f"{path} is a zip file and not what its name says: TorchScript, or what torch.save makes",
            f"name it {path.stem}.ts and build from that",
        )
    if graph_kind(path.name) == "onnx":
        if data.lstrip()[:1] == b"<":
            raise UsageError(f"{path} is an XML file and not ONNX", f"if it is OpenVINO's IR, name it {path.stem}.xml")
        return (fold_external_data(data, partial(_read_external, path)),)
    model_info(data)  # which tells an IR from other XML
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise UsageError(f"no file {weights}", f"an IR is two files: copy the .bin of the export beside {path.name}")
    return data, _read(weights)


def read_graph_facts(path: Path, output_name: str | None) -> SourceFacts:
    """Return what a network's file says about its use: its input's size and type, and the metadata of an export."""
    files = read_graph_files(path)
    own = describe_input(read_graph(files, output_name))
    turned = ", turned to NHWC for it" if (own.kind, own.layout) == ("float-nchw", "NHWC") else ""
    facts = {"input": Fact(own.kind, f"{own.dtype} input{turned}", is_fixed=True)}
    if known := own.width or own.height:
        shape = f"input of {own.width or 'any'} x {own.height or 'any'}"
        is_fixed = None not in (own.width, own.height)
        facts["size"] = Fact(Size(own.width or known, own.height or known), shape, is_fixed)
    is_onnx = graph_kind(path.name) == "onnx"
    said = onnx_facts(metadata_props(files[0])) if is_onnx else model_api_facts(model_info(files[0]))
    if own.dtype == "uint8":
        said = _without_normalisation(said)
    return SourceFacts(facts).merged(said)


def refuse_other_files(path: Path, data: bytes) -> None:
    """Raise UsageError or ModelError for a file that is not TorchScript, if it can be told what it is."""
    if path.name == CONFIG:
        raise UsageError(f"{path} describes the network of its folder", f"give the folder: {path.parent}")
    if path.suffix.lower() == ".bin" and path.with_suffix(".xml").is_file():
        raise UsageError(f"{path} has the weights of an IR", f"give the network: {path.with_suffix('.xml')}")
    if data.lstrip()[:4] in (b"<?xm", b"<net"):
        raise UsageError(f"{path} is an XML file", f"if it is OpenVINO's IR, name it {path.stem}.xml")
    if data[:1] == b"\x08":
        with suppress(DamagedOnnx):
            metadata_props(data)
            raise UsageError(f"{path} is an ONNX file by its content", f"name it {path.stem}.onnx")
    is_safetensors = path.suffix == ".safetensors"
    if is_safetensors or data[:1] == b"\x80" or (data[:2] == b"PK" and not has_code(data)):
        try:
            state = read_weights(path)
        except ModelError:
            return  # the loader of TorchScript says more
        key, tensors = next(iter(state_dicts_in(state).items()), (None, state))
        if tensors and all(isinstance(value, Tensor) for value in tensors.values()):
            entry = f"a checkpoint whose entry {key!r} is " if key else ""
            what, hint = describe_weights(list(map(str, tensors)), str(path))
            raise ModelError(f"{path} is {entry}{what}: weights without a network", hint)


def _without_normalisation(said: SourceFacts) -> SourceFacts:
    """Refuse a mean or std beside a network that takes pixels as they are, unless they change nothing."""
    changing = {"mean": "0,0,0", "std": "1,1,1"}
    kept = {option: fact for option, fact in said.facts.items() if option not in changing}
    refused = [
        Unsupported(
            f"the network takes uint8, and its file says {option} {said.facts[option]}",
            "if it normalises by itself say so: --set input=uint8-nhwc; else export it with a float32 input",
            frozenset({"input"}),
        )
        for option, nothing in changing.items()
        if option in said.facts and said.facts[option].value != nothing
    ]
    return SourceFacts(kept, (*said.refusals, *refused))


def _read(path: Path) -> bytes:
    with os_errors_as(UsageError, str(path), "it must be readable"):
        return path.read_bytes()


def _read_external(model: Path, location: str) -> bytes:
    """Read a file of external data, which must lie below the folder of the ONNX file."""
    folder = model.resolve().parent
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder):
        raise ModelError(
            f"{model} names external data outside of its folder: {location!r}", "export it again, both files together"
        )
    if not path.is_file():
        close = difflib.get_close_matches(
            path.name, [one.name for one in folder.iterdir() if one != model.resolve()], n=1, cutoff=0.5
        )
        there = f"; {close[0]} is there: does it have another name?" if close else ""
        raise UsageError(f"{model} keeps its weights in {location}, which is not in {folder}", f"copy it there{there}")
    return _read(path)
