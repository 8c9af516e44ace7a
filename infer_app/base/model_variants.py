"""The forms in which a model can run: each is one record, made here; manifests, rows and `--variant` have its name."""

from dataclasses import dataclass
from typing import NamedTuple

from infer_app.base.errors import ModelError

TORCHSCRIPT = "cpu-torchscript"
OPENVINO_FP32 = "cpu-openvino-fp32"
OPENVINO_BF16 = "cpu-openvino-bf16"
OPENVINO_INT8 = "cpu-openvino-int8"
TRT_FP16, TRT_BF16 = "trt-fp16", "trt-bf16"
CUDA_FP16, CUDA_BF16 = "cuda-fp16", "cuda-bf16"

_SHORT = {"trt": TRT_FP16, "cuda": CUDA_FP16}
_PRECISIONS = {"fp16": "half", "bf16": "half", "int8": "int8"}  # of all else: full


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of a model."""

    name: str
    device: str  # cpu or cuda
    runtime: str  # torchscript, openvino or tensorrt
    dtype: str  # in which the network computes: fp32, fp16, bf16 or int8
    is_known: bool = True  # rows and manifests may have variants of another version of this program

    @property
    def precision(self) -> str:
        """Return what --precision calls the dtype: full, half or int8."""
        return _PRECISIONS.get(self.dtype, "full")

    @property
    def is_exact(self) -> bool:
        """Return whether its outputs are those of the source, but for the order of sums."""
        return self.precision == "full"

    @property
    def is_fitted(self) -> bool:
        """Return whether another build has other numbers: by another calibration, or by kernels that were faster then.

        Files of other variants differ by the version of the library that wrote them.
        """
        return self.name == OPENVINO_INT8 or self.runtime == "tensorrt"

    @property
    def stored_as(self) -> str:
        """Return the variant whose files it uses, most often itself: bf16 is the fp32 graph, computed otherwise."""
        return OPENVINO_FP32 if self.name == OPENVINO_BF16 else self.name

    @property
    def folder(self) -> str:
        """Return the folder of its files in the model's."""
        return f"variants/{self.stored_as}/"

    @property
    def words(self) -> str:
        """Return `full precision`, `half precision` or `int8 precision`."""
        return f"{self.precision} precision"

    @property
    def option(self) -> str:
        """Return the option that chooses it among the variants of its device."""
        return f"--precision {self.precision}"

    def __str__(self) -> str:
        return f"{self.name} ({self.words})"


_VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(TRT_FP16, "cuda", "tensorrt", "fp16"),
        Variant(TRT_BF16, "cuda", "tensorrt", "bf16"),
        Variant(CUDA_FP16, "cuda", "torchscript", "fp16"),
        Variant(CUDA_BF16, "cuda", "torchscript", "bf16"),
        Variant(OPENVINO_FP32, "cpu", "openvino", "fp32"),
        Variant(OPENVINO_BF16, "cpu", "openvino", "bf16"),
        Variant(OPENVINO_INT8, "cpu", "openvino", "int8"),
        Variant(TORCHSCRIPT, "cpu", "torchscript", "fp32"),
    )
}
PREFERRED = tuple(_VARIANTS)  # of those that a machine can run, a run takes the first
GPU_VARIANTS = tuple(one.name for one in _VARIANTS.values() if one.device == "cuda")
CPU_DTYPES = {one.precision: one.dtype for one in _VARIANTS.values() if one.device == "cpu"}  # by --precision


def variant_of(name: str) -> Variant:
    """Return the variant of a name; of one that is not known what its name says."""
    device, dtype = "cpu" if name.startswith("cpu-") else "cuda", name.rpartition("-")[2]
    return _VARIANTS.get(name) or Variant(name, device, "", dtype, is_known=False)


def known_variant(name: str) -> Variant:
    """Return the variant of a name. Raises ModelError for one that this program does not know."""
    if name not in _VARIANTS:
        raise ModelError(f"variant {name!r} is not known here", "update infer_app")
    return _VARIANTS[name]


def full_name(name: str) -> str:
    """Return the full name of a variant; `trt` and `cuda` are short for their fp16 variants."""
    return _SHORT.get(name, name)


def variant_facts(name: str) -> dict[str, str]:
    """Return what is printed of a row's variant beside its name."""
    return {"precision": variant_of(name).precision}


class BegunVariant(NamedTuple):
    """The variant of a day's first predictions, and its files; None: those of any build go on with it."""

    variant: str
    sha256: str | None

    def is_that_of(self, variant: str, sha256: str | None) -> bool:
        return self.variant == variant and self.sha256 in (None, sha256)
