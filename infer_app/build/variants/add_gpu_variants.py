"""Build the GPU variants of a model and store each one only after it was verified in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from infer_app.artifact.artifact import Artifact, open_artifact, record_variant
from infer_app.artifact.specs import InputSpec, Tolerance
from infer_app.base.errors import ModelError, UsageError, lines_of
from infer_app.base.model_variants import GPU_VARIANTS, full_name, variant_of
from infer_app.base.printing import counted
from infer_app.base.size import Size
from infer_app.build.variants.calibration import Calibration, judge_on, load_calibration
from infer_app.predict.runtimes import tensorrt
from infer_app.predict.runtimes.gpu_probe import Host, describe_host, missing_here
from infer_app.predict.runtimes.gpu_variants import load_module, run_fixed
from infer_app.predict.runtimes.torchscript import load_torchscript, save_module, trace_module
from infer_app.predict.verification.agreement import Report, find_min_agreement, judgement
from infer_app.predict.verification.golden import golden_parity, golden_pixels, predict_all
from infer_app.predict.verification.parity import Parity
from infer_app.predict.workers.isolated_call import run_in_process

MIN_COSINE = 0.999  # minimum of each golden image: fp16 keeps about three digits
MIN_ROOM = 0.02  # minimum tolerance, relative to the largest output
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
SOURCES_WITHOUT_GPU = ("onnx", "openvino")
PARITY_BATCH = 3  # images: not a size that a plan is tuned for, and it leaves a smaller last batch

MakeModule = Callable[[], nn.Module]


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """The machine and the device on which GPU variants are built and verified, and what makes the source.

    `make_module` returns a new copy of it, in fp32 on the CPU; only TensorRT needs it.
    """

    host: Host
    device: torch.device
    make_module: MakeModule | None = None

    @classmethod
    def local(cls, make_module: MakeModule | None = None) -> BuildTarget:
        """Return the first GPU of this machine."""
        return cls(describe_host(), torch.device("cuda", 0), make_module)


@dataclass(frozen=True)
class BuiltVariant:
    """A variant before it is verified: its files by name, and its manifest entry without the parity."""

    files: dict[str, bytes]
    details: dict[str, Any]


def check_gpu_variants(names: Sequence[str], source_kind: str, host: Host) -> list[str]:
    """Return the full names of the variants, in the order in which they are built.

    Check before anything is built, because building takes minutes. Raises UsageError for an unknown name, and
    ModelError for a variant that can't be built and verified on this machine.
    """
    variants = list(dict.fromkeys(full_name(name) for name in names))
    for variant in variants:
        if variant not in GPU_VARIANTS:
            raise UsageError(f"no GPU variant {variant!r}", f"choose one of: trt, cuda, {', '.join(GPU_VARIANTS)}")
        if source_kind in SOURCES_WITHOUT_GPU:
            raise ModelError(
                f"{variant} can't be built from an ONNX file or an IR, which have variants for a CPU only",
                "give the Python callable that makes the module: `infer model build package.module:function "
                "--weights FILE --name NAME --variant trt`; or leave --variant out",
            )
        if why := missing_here(variant, host):
            raise ModelError(
                f"{variant} can't be built here: {why}", "nothing was published; build it where it will run"
            )
        if variant_of(variant).runtime == "tensorrt" and source_kind != "callable":
            raise ModelError(
                f"{variant} can't be built from a TorchScript file: torch.export takes no TorchScript",
                "give the Python callable that makes the module: `infer model build package.module:function "
                "--weights FILE --name NAME --variant trt`; or build --variant cuda, which takes a TorchScript file",
            )
    return variants


def add_gpu_variants(
    artifact: Artifact,
    variants: Sequence[str],
    target: BuildTarget,
    report: Report,
    calibration: Calibration | None = None,
    check: Callable[[], None] = lambda: None,
) -> Artifact:
    """Build and record the named variants and return the artifact that has them.

    `calibration` has the user's own images, to judge the variants by. `check` raises if one may not be replaced: a run
    may have begun while it was made. Raises ModelError for the first variant that fails: it is not recorded, the ones
    before it are.
    """
    for variant in variants:
        report(f"{variant}: building")
        built = _build(artifact, variant, target)
        module = built.files[tensorrt.MODULE_FILE]
        parity, judged = run_in_process(
            measure_built, artifact.folder, variant, module, str(target.device), calibration
        )
        _check_parity(variant, parity)
        # Of each run's golden check: at least twice what was measured, since another batch size adds in another order.
        tolerance = Tolerance(cosine=MIN_COSINE, relative=max(MIN_ROOM, 2 * parity.relative_difference))
        details = {"parity": parity.to_json(), "tolerance": asdict(tolerance), **built.details}
        if calibration is not None and judged is not None:
            min_agreement = find_min_agreement(artifact.manifest.output, calibration.min_agreement)
            details |= judgement(artifact, variant, judged, min_agreement, report)
        check()
        artifact = record_variant(artifact, variant, details, built.files)
        report(f"{variant}: worst cosine {parity.cosine:.6f} on {counted(parity.num_images, 'golden image')}")
    return artifact


def measure_built(
    folder: Path, variant: str, module: bytes, device: str, calibration: Calibration | None
) -> tuple[Parity, Parity | None]:
    """Measure the parity of a module on the golden images, and on the user's if there are any.

    It takes them in several batches and a smaller last one. Call it in a process that has not loaded a model yet.
    """
    artifact, on = open_artifact(folder), torch.device(device)
    model = run_fixed(load_module(variant, module, on), artifact.manifest.recipe.size, PARITY_BATCH, on)
    golden = golden_parity(artifact, predict_all(model, golden_pixels(artifact), PARITY_BATCH))
    if calibration is None:
        return golden, None
    return golden, judge_on(artifact, model, load_calibration(artifact, calibration).judging)


def _build(artifact: Artifact, variant: str, target: BuildTarget) -> BuiltVariant:
    manifest, device = artifact.manifest, target.device
    is_plan = variant_of(variant).runtime == "tensorrt"
    if target.make_module is None or not is_plan:
        source: nn.Module = load_torchscript(artifact.read(manifest.model_file))
    else:
        source = target.make_module()
    pixels = torch.from_numpy(golden_pixels(artifact)[:2]).to(device)
    model = make_half(source.to(device), manifest.input_spec, variant_of(variant).dtype, pixels)
    if is_plan:
        return _build_plan(model, manifest.recipe.size, target)
    return BuiltVariant({tensorrt.MODULE_FILE: trace_module(model, pixels)}, {"requires": _requires_cuda(target.host)})


def _build_plan(model: nn.Module, size: Size, target: BuildTarget) -> BuiltVariant:
    plan = tensorrt.build_plan(model, size, target.device)
    bindings = tensorrt.read_bindings(plan)
    if (len(bindings.inputs), len(bindings.outputs)) != (1, 1):
        raise ModelError(f"the plan has {bindings} instead of one input and one output", "build --variant cuda instead")
    module = save_module(tensorrt.embed(plan, bindings, target.device))
    details = {
        "requires": target.host.requirements() | {"abi": tensorrt.runtime_abi()},
        "bindings": bindings._asdict(),
        "batch": {"min": tensorrt.MIN_BATCH, "best": tensorrt.BEST_BATCH, "max": tensorrt.MAX_BATCH},
    }
    return BuiltVariant({tensorrt.PLAN_FILE: plan, tensorrt.MODULE_FILE: module}, details)


def _requires_cuda(host: Host) -> dict[str, str]:
    """Return what a CUDA variant requires of a machine, for the record.

    TorchScript is compiled where it is loaded, so TensorRT's versions and the compute capability are left out.
    """
    bare = replace(host, tensorrt=None, torch_tensorrt=None)
    return {key: value for key, value in bare.requirements().items() if key != "compute_capability"}


def _check_parity(variant: str, parity: Parity) -> None:
    if not parity.cosine >= MIN_COSINE:  # written so that NaN fails
        raise ModelError(
            f"{variant}: the worst golden image has cosine {parity.cosine:.6f}, at least {MIN_COSINE:g} is needed",
            f"nothing was published; a model that overflows in fp16 may keep its range in bf16: --variant "
            f"{variant.replace('fp16', 'bf16')}",
        )


class HalfModel(nn.Module):
    """A source in fp16 or bf16 that takes (n, H, W, 3) uint8 and returns (n, D) float32.

    Pixels become float32 before anything else, because TensorRT accepts uint8 only as an input. Normalising in float32
    loses nothing; only the source itself runs in it.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, source: nn.Module, spec: InputSpec, dtype: torch.dtype) -> None:
        super().__init__()
        halved: Any = source.to(dtype)
        self.source = halved.to(memory_format=torch.channels_last)  # only the weights: pixels have it already
        self.dtype = dtype
        self.takes_pixels = spec.takes_pixels
        self.register_buffer("mean", torch.tensor(spec.mean, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(spec.std, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        if self.takes_pixels:
            return _rows(self.source(pixels))
        pictures = pixels.to(torch.float32).permute(0, 3, 1, 2)
        return _rows(self.source(((pictures - self.mean) / self.std).to(self.dtype)))


def make_half(source: nn.Module, spec: InputSpec, dtype: str, pixels: Tensor) -> HalfModel:
    """Convert a source to `dtype` (fp16 or bf16) and try it on (n, H, W, 3) `pixels`, on their device.

    The source itself is changed. Raises ModelError if it mixes dtypes: what it casts inside can't be changed from
    outside.
    """
    model = HalfModel(source, spec, DTYPES[dtype]).eval().to(pixels.device)
    try:
        with torch.no_grad():  # not inference_mode, whose tensors can't be exported if the module keeps one
            model(pixels)
    except Exception as error:  # the user's code runs here
        raise ModelError(
            f"the module can't run in {dtype}: {lines_of(error)[-1][:300]}",
            "if it casts to float32 or makes tensors of a fixed type, use x.to(self.weight.dtype) there",
        ) from error
    return model


def _rows(output: Tensor) -> Tensor:
    """Convert to (n, D) float32 with as few operators as possible, because TensorRT must support each of them."""
    if output.dim() == 1:
        output = output.unsqueeze(1)
    return (output.flatten(1) if output.dim() > 2 else output).float()
