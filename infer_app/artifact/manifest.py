"""Read and write manifest.json, which describes a model, compute the model's id, and parse label files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import CropSpec, InputSpec, OutputSpec, Tolerance, floats3
from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import ModelChanged, ModelError, UsageError
from infer_app.base.model_variants import OPENVINO_INT8, variant_of

Details: TypeAlias = dict[str, Any]  # of a variant: how exact it is, what it requires of a machine and so on

FORMAT = 1  # increased when an older program could misread the file
ID_LENGTH = 16  # hex digits
LABELS_FILE = "labels.txt"
PREPROCESS_FILE = "preprocess.py"
HEAD_FILE = "head.py"  # of a detector's own head
CROP_FILE = "crop.py"  # of a second network's own function that cuts out its crops
GOLDEN_PIXELS_FILE = "golden/pixels.npy"  # (n, H, W, 3) uint8, decoded by Pillow
GOLDEN_OUTPUTS_FILE = "golden/outputs.npy"  # (n, num_outputs) float32: the source's outputs for them
MODEL_FILES = {
    "torchscript": ("source.ts",),
    "callable": ("model.ts",),
    "onnx": ("source.onnx",),
    "openvino": ("source.xml", "source.bin"),
}
REBUILD = "rebuild the model with `infer model build SOURCE --name NAME`, or restore its folder from a backup"


@dataclass(frozen=True)
class Manifest:
    """The fields of manifest.json; `files` has the sha256 of every other file of the artifact."""

    name: str
    model_id: str
    recipe: Recipe
    input: str  # float-nchw or uint8-nhwc
    mean: tuple[float, float, float]  # 0-1 scale
    std: tuple[float, float, float]
    output: OutputSpec
    num_outputs: int  # per image
    source: str  # as given to build
    source_kind: str  # torchscript, callable, onnx or openvino
    source_sha256: str  # of the files' bytes, or of the callable's code and weights
    preprocess: str | None  # package.module:function of a custom recipe
    golden: tuple[str, ...]  # encoded images, relative paths
    tolerance: Tolerance
    created_at: str  # ISO 8601, UTC
    built_with: dict[str, str]
    files: dict[str, str]  # relative path: sha256
    variants: dict[str, Details] = field(default_factory=dict)
    format: int = FORMAT
    output_name: str | None = None  # the output that is stored of a network's file that has several
    weights: str | None = None  # the file that was loaded into a callable's or a library's module, as given to build
    crop: CropSpec | None = None  # of a second network: the detector whose objects are its pictures

    @property
    def model_files(self) -> tuple[str, ...]:
        """Return source.*, the very bytes that were given, or model.ts, which a callable was traced to.

        An ONNX file with external data holds them in its copy.
        """
        return MODEL_FILES[self.source_kind]

    @property
    def model_file(self) -> str:
        """Return the first of `model_files`, which is the only one of TorchScript."""
        return self.model_files[0]

    @property
    def has_torchscript(self) -> bool:
        """Return whether the source is TorchScript, so that torch can run it."""
        return self.model_file.endswith(".ts")

    @property
    def is_quantised(self) -> bool:
        """Return whether the source was quantised before the build: of its forms for a CPU int8 is the only one."""
        return {OPENVINO_INT8}.issuperset(self.variants) and bool(self.variants)

    @property
    def input_spec(self) -> InputSpec:
        return InputSpec(self.input, self.mean, self.std)

    def expected_id(self) -> str:
        """Hash everything that defines the predictions and nothing else: no name, no variant, no timing."""
        defines: dict[str, object] = {
            "source": self.source_sha256,
            "recipe": self.recipe.to_json(),
            "input": asdict(self.input_spec),
            "output": self.output.to_json(),
            "labels": self.files.get(LABELS_FILE),
            "preprocess": [self.preprocess, self.files.get(PREPROCESS_FILE)],
        }
        # What was added later counts only where it is set, so that models keep their ids.
        crop = [self.crop.to_json(), self.files.get(CROP_FILE)] if self.crop else None
        later = {"output_name": self.output_name, "head": self.files.get(HEAD_FILE), "crop": crop}
        defines |= {key: value for key, value in later.items() if value is not None}
        canonical = json.dumps(defines, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:ID_LENGTH]

    def files_of(self, variant: str) -> dict[str, str]:
        """Return the checksums of all files that decide a variant's numbers: the network's, and the variant's own."""
        of_network = {*self.model_files, LABELS_FILE, PREPROCESS_FILE, HEAD_FILE, CROP_FILE}
        own = variant_of(variant).folder
        return {path: value for path, value in self.files.items() if path in of_network or path.startswith(own)}

    def variant_sha256(self, variant: str) -> str:
        """Return what tells two builds of one variant apart, as of int8 by another calibration.

        The model's id stands for the recipe; where the files lie makes no difference.
        """
        parts = [self.model_id, variant, *sorted(self.files_of(variant).values())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def find_file(self, variant: str, name: str) -> str:
        """Return the path of a variant's file: replaced ones lie in a folder of their own. Raises ModelError."""
        for path in self.files:
            if path.startswith(variant_of(variant).folder) and path.endswith(f"/{name}"):
                return path
        raise ModelError(f"{self.name} {self.model_id} has no {name} of {variant}", REBUILD)

    def requires(self, variant: str) -> Details:
        """Return what a variant requires of the machine that runs it."""
        return self.variants.get(variant, {}).get("requires") or {}

    def tolerance_of(self, variant: str | None) -> Tolerance:
        """Return a variant's own tolerance if it has one, else the model's."""
        own = self.variants.get(variant or "", {}).get("tolerance")
        return Tolerance(**own) if own else self.tolerance

    def to_json(self) -> str:
        values = asdict(self) | {"recipe": self.recipe.to_json(), "output": self.output.to_json()}
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Manifest:
        """Parse a manifest. Raises ModelError, naming `where`, if it is not valid."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ModelChanged(f"{where}: not JSON: {error}", REBUILD) from error
        if not isinstance(data, dict):
            raise ModelChanged(f"{where}: not a JSON object", REBUILD)
        _check_keys(data, where)
        try:
            return _from_dict(data)
        except (TypeError, ValueError, KeyError, AttributeError, UsageError) as error:
            raise ModelChanged(f"{where}: {error}", REBUILD) from error


def parse_labels(data: bytes, where: str) -> tuple[str, ...]:
    """Parse a label file: UTF-8, one label a line, class i on line i.

    Raises ModelError that names the line that can't be a label.
    """
    try:
        text = decode_text(data, where)
    except UsageError as error:
        raise ModelError(error.message, error.hint) from None
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise ModelError(f"{where}: line {number} is blank", "class i is line i: give every class a label")
        if "\0" in line:  # PostgreSQL can't store it
            raise ModelError(f"{where}: line {number} has a NUL character", "save it as UTF-8, not as UTF-16")
    return tuple(lines)


def format_labels(labels: tuple[str, ...]) -> bytes:
    """Return the bytes of a label file; they are hashed, so line ends are always the same."""
    return "".join(f"{label}\n" for label in labels).encode()


def _check_keys(data: Details, where: str) -> None:
    version = data.get("format", FORMAT)
    if isinstance(version, int) and version > FORMAT:
        raise ModelError(
            f"{where}: format {version}, this program reads {FORMAT}", "update infer_app, or rebuild the model here"
        )
    known = {item.name for item in fields(Manifest)}
    if missing := sorted(known - set(data)):
        raise ModelChanged(f"{where}: missing {', '.join(missing)}", REBUILD)
    if unknown := sorted(set(data) - known):
        raise ModelChanged(f"{where}: unknown {', '.join(unknown)}", REBUILD)


def _from_dict(data: Details) -> Manifest:
    manifest = Manifest(
        **{
            **data,
            "recipe": Recipe(**data["recipe"]),
            "mean": floats3(data["mean"]),
            "std": floats3(data["std"]),
            "output": OutputSpec.from_json(data["output"]),
            "tolerance": Tolerance(**data["tolerance"]),
            "golden": tuple(data["golden"]),
            "crop": CropSpec.from_json(data["crop"]) if data.get("crop") else None,
        }
    )
    _check_values(manifest)
    return manifest


def _check_values(manifest: Manifest) -> None:
    """Raise ValueError for values that the types allow but that are not valid."""
    if manifest.source_kind not in MODEL_FILES:
        raise ValueError(f"unknown source_kind {manifest.source_kind!r}")
    for path in manifest.files:
        if path.startswith("/") or "\\" in path or ".." in path.split("/"):
            raise ValueError(f"file {path!r} lies outside the artifact")
    needed = {*manifest.model_files, GOLDEN_PIXELS_FILE, GOLDEN_OUTPUTS_FILE, *manifest.golden}
    if missing := sorted(needed - set(manifest.files)):
        raise ValueError(f"no checksum of {', '.join(missing)}")
    if not manifest.golden or not isinstance(manifest.variants, dict):
        raise ValueError("golden images or variants are missing")
    for variant, details in manifest.variants.items():
        _check_variant(variant, details)
    if manifest.input_spec.kind and manifest.expected_id() != manifest.model_id:
        raise ValueError(f"does not belong to model {manifest.model_id}: changed since it was built")


def _check_variant(variant: str, details: object) -> None:
    """Check the types of the keys that variant selection reads; other keys are allowed."""
    if not isinstance(details, dict):
        raise ValueError(f"variant {variant} is not an object")
    for key in ("parity", "calibration", "tolerance", "requires"):
        values = details.get(key, {})
        if not isinstance(values, dict):
            raise ValueError(f"{key} of variant {variant} is not an object")
        if key != "requires" and not all(isinstance(value, int | float) for value in values.values()):
            raise ValueError(f"{key} of variant {variant} has a value that is not a number")
    Tolerance(**details.get("tolerance", {}))
