"""Pure decisions: the manifests are written down, and nothing is loaded."""

from dataclasses import replace

import pytest

from infer_app.artifact.manifest import Manifest
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import InputSpec, OutputSpec, Tolerance
from infer_app.base.errors import ModelError, PrecisionUnavailable
from infer_app.base.model_variants import (
    CUDA_FP16,
    OPENVINO_BF16,
    OPENVINO_FP32,
    OPENVINO_INT8,
    TORCHSCRIPT,
    TRT_BF16,
    TRT_FP16,
    BegunVariant,
)
from infer_app.predict.runtimes.gpu_probe import UNKNOWN
from infer_app.predict.variant_selection import VariantRequest, choose_variant
from tests.support.judged import JUDGED


def parity(cosine, relative_difference):
    return {"parity": {"cosine": cosine, "relative_difference": relative_difference}}


SAME, OTHER = parity(0.999999, 1e-6), parity(0.5, 1.0)
ROUNDED = parity(0.99, 0.1) | JUDGED
UNFIT = ROUNDED | {"min_agreement": 2.0}
GOOD_HALF = parity(0.99998, 1e-3) | {
    "tolerance": {"cosine": 0.999, "relative": 0.02},
    "requires": {"compute_capability": "9.0"},
}
CPU = {TORCHSCRIPT: SAME, OPENVINO_FP32: SAME, OPENVINO_INT8: ROUNDED}
GPU = {TRT_FP16: GOOD_HALF, CUDA_FP16: GOOD_HALF}
NO_INT8 = "--precision int8 chooses it"


def model(*variants, **details):
    """A model with these variants, all of them good, but for what is given of `int8`, `fp32`, `bf16` or `trt`."""
    named = {"int8": OPENVINO_INT8, "fp32": OPENVINO_FP32, "bf16": OPENVINO_BF16, "trt": TRT_FP16}
    given = {name: (CPU | GPU).get(name, ROUNDED if name == OPENVINO_BF16 else GOOD_HALF) for name in variants or CPU}
    return replace(MODEL, variants=given | {named[short]: value for short, value in details.items()})


def test_who_has_int8_alone_is_not_sent_to_full_precision():
    with pytest.raises(ModelError, match="no int8 variant") as caught:
        choose_variant(model(OPENVINO_INT8, int8=UNFIT), VariantRequest(device="cpu"), lambda variant, requires: None)
    assert "judge it with another" in caught.value.hint
    assert "--precision" not in caught.value.hint


def test_another_share_is_advised_only_where_enough_images_judged():
    few = {"calibration": {**UNFIT["calibration"], "num_images": 20}, "min_agreement": 0.5}
    with pytest.raises(ModelError, match="300 are needed") as caught:
        choose_variant(model(int8=few), VariantRequest(precision="int8"), lambda variant, requires: None)
    assert caught.value.hint.endswith("judges it on more of your images; or take --precision full")


MODEL = Manifest(
    name="pets",
    model_id="0123456789abcdef",
    recipe=Recipe("stretch", 16),
    input="float-nchw",
    mean=InputSpec().mean,
    std=InputSpec().std,
    output=OutputSpec(),
    num_outputs=3,
    source="pets.ts",
    source_kind="torchscript",
    source_sha256="ab" * 32,
    preprocess=None,
    golden=("golden/1.jpg",),
    tolerance=Tolerance(),
    created_at="2026-11-20T00:00:00+00:00",
    built_with={},
    files={},
)
EVERY = model(*CPU, OPENVINO_BF16, *GPU)
NO_OPENVINO, NO_BF16, NO_GPU = (
    {OPENVINO_FP32: UNKNOWN, OPENVINO_INT8: UNKNOWN},
    {OPENVINO_BF16: "this CPU does not compute bf16"},
    dict.fromkeys((TRT_FP16, CUDA_FP16, TRT_BF16), "no NVIDIA GPU is found"),
)
OTHER_GPU = {TRT_FP16: "built for another"}
COSINE = "cosine 0.998500 is below 0.999"


def choose(manifest, request=VariantRequest(), missing=None):  # noqa: B008
    """`missing` has why a variant can't run here."""
    return choose_variant(manifest, request, lambda name, _: (missing or {}).get(name))


def chosen(manifest, missing=None, **request):
    return choose(manifest, VariantRequest(**request), missing)[0]


def begun_in(variant, sha256=None):
    return BegunVariant(variant, sha256)


@pytest.mark.parametrize("variants", [(TORCHSCRIPT, OPENVINO_FP32), (OPENVINO_FP32, TORCHSCRIPT)])
def test_openvino_comes_before_torchscript_and_the_others_are_told(variants):
    assert choose(model(*variants, OPENVINO_INT8)) == (
        OPENVINO_FP32,
        {OPENVINO_INT8: NO_INT8, TORCHSCRIPT: f"{OPENVINO_FP32} comes first"},
    )
    assert chosen(model(*variants), NO_OPENVINO) == TORCHSCRIPT


def test_a_gpu_comes_before_the_cpu_and_tensorrt_before_cuda():
    variant, passed_over = choose(model(*CPU, *GPU))
    assert variant == TRT_FP16
    first = f"{TRT_FP16} comes first"
    assert passed_over == dict.fromkeys((CUDA_FP16, TORCHSCRIPT, OPENVINO_FP32), first) | {OPENVINO_INT8: NO_INT8}


@pytest.mark.parametrize(
    ("manifest", "request_", "missing", "taken", "passed_over"),
    [
        (model(), VariantRequest(precision="int8"), {}, OPENVINO_INT8, {TORCHSCRIPT: "int8 is chosen"}),
        (EVERY, VariantRequest(), OTHER_GPU, CUDA_FP16, OTHER_GPU),
        (EVERY, VariantRequest(), NO_GPU, OPENVINO_FP32, {CUDA_FP16: NO_GPU[CUDA_FP16], TRT_FP16: NO_GPU[TRT_FP16]}),
        (EVERY, VariantRequest(device="cpu"), {}, OPENVINO_FP32, {TRT_FP16: "the device is cpu"}),
        (EVERY, VariantRequest(device="cuda"), OTHER_GPU, CUDA_FP16, {TORCHSCRIPT: "the device is cuda"}),
        # The golden check of every run would refuse these.
        (model(*GPU, trt=GOOD_HALF | parity(0.9985, 1e-3)), VariantRequest(), {}, CUDA_FP16, {TRT_FP16: COSINE}),
        *(
            (model(TORCHSCRIPT, fp32=parity(*figures)), VariantRequest(), {}, TORCHSCRIPT, {OPENVINO_FP32: why})
            for *figures, why in (
                (0.9998, 1e-6, "cosine 0.999800 is below 0.9999"),
                (float("nan"), float("nan"), "cosine nan is below 0.9999"),
                (0.99995, 0.01, "outputs differ by 0.01 of the largest, not 0.001 at most"),
            )
        ),
    ],
)
def test_what_is_passed_over_is_told_with_its_reason(manifest, request_, missing, taken, passed_over):
    variant, reasons = choose(manifest, request_, missing)
    assert variant == taken
    assert reasons.items() >= passed_over.items()


@pytest.mark.parametrize(
    ("precision", "on_cpu", "on_gpu"),
    [("full", OPENVINO_FP32, OPENVINO_FP32), ("half", OPENVINO_BF16, TRT_FP16), ("int8", OPENVINO_INT8, OPENVINO_INT8)],
)
def test_what_is_computed_is_what_was_asked_for(precision, on_cpu, on_gpu):
    assert chosen(EVERY, NO_GPU, precision=precision) == on_cpu
    assert chosen(EVERY, precision=precision) == on_gpu


NOT_ON_A_GPU = "pets: no variant can run on a GPU here"
BUILD = "`infer model build SOURCE --name pets --variant"


@pytest.mark.parametrize(
    ("manifest", "request_", "missing", "message", "hint"),
    [
        (model(), VariantRequest(precision="int8"), NO_OPENVINO, "pets: no int8 variant can run", "--precision full"),
        (model(TORCHSCRIPT), VariantRequest(precision="half"), {}, "pets: no bf16", "`infer model judge pets`"),
        (
            model(bf16=UNFIT),
            VariantRequest(precision="half"),
            {},
            "pets: no bf16",
            "infer model judge pets@01234567 -",
        ),
        (model(TORCHSCRIPT), VariantRequest(precision="int8"), {}, "pets: no int8", "--calibrate"),
        (
            model(int8=UNFIT),
            VariantRequest(precision="int8"),
            {},
            "pets: no int8",
            "infer model judge pets@01234567 -",
        ),
        (EVERY, VariantRequest(precision="half"), NO_BF16 | NO_GPU, "pets: no bf16", "for days not begun yet"),
        (model(OPENVINO_INT8, fp32=OTHER), VariantRequest(), {}, "pets: no fp32 variant can run here", "--precision"),
        (EVERY, VariantRequest(device="cuda"), NO_GPU, NOT_ON_A_GPU, "let --device auto take the CPU"),
        (model(), VariantRequest(device="cuda"), {}, NOT_ON_A_GPU, f"{BUILD} trt`"),
        (model(), VariantRequest(begun=begun_in("gpu-new")), {}, "variant 'gpu-new' is not known", "update infer_app"),
    ],
)
def test_what_can_not_run_here_is_never_replaced_by_another_precision_or_device(
    manifest, request_, missing, message, hint
):
    with pytest.raises(ModelError) as caught:
        choose(manifest, request_, missing)
    assert caught.value.message.startswith(message)
    assert (caught.value.exit_code, hint in caught.value.hint) == (12, True), caught.value.hint


@pytest.mark.parametrize("precision", [None, "full", "half", "int8"])
@pytest.mark.parametrize("begun", [TORCHSCRIPT, OPENVINO_FP32, OPENVINO_BF16, OPENVINO_INT8, CUDA_FP16])
def test_a_day_goes_on_with_the_variant_it_began_with_whatever_is_asked_for_later(precision, begun):
    assert chosen(EVERY, precision=precision, begun=begun_in(begun)) == begun


@pytest.mark.parametrize(
    ("begun", "manifest", "missing", "taken"),
    [
        (OPENVINO_FP32, model(TORCHSCRIPT, OPENVINO_INT8), {}, TORCHSCRIPT),
        (OPENVINO_FP32, model(), NO_OPENVINO, TORCHSCRIPT),
        (TORCHSCRIPT, model(OPENVINO_FP32, *GPU), {}, OPENVINO_FP32),
        (CUDA_FP16, model(*CPU, TRT_FP16), {}, TRT_FP16),
        (OPENVINO_INT8, model(TORCHSCRIPT), {}, "int8"),
        (TRT_FP16, EVERY, NO_GPU, "fp16"),
        (TRT_FP16, model(*CPU, TRT_BF16), {}, "fp16"),
        (OPENVINO_BF16, EVERY, NO_BF16 | NO_GPU, "bf16"),
        (OPENVINO_BF16, EVERY, NO_BF16, "bf16"),  # a GPU's fp16 is another precision
    ],
)
def test_a_day_whose_variant_can_not_run_here_goes_on_in_its_precision_or_waits(begun, manifest, missing, taken):
    if "-" in taken:
        assert chosen(manifest, missing, begun=begun_in(begun)) == taken
        return
    with pytest.raises(PrecisionUnavailable, match=f"no {taken} variant can run here") as caught:
        chosen(manifest, missing, begun=begun_in(begun))
    assert (caught.value.exit_code, f"on a machine that runs {begun}" in caught.value.hint) == (12, True)


def test_a_day_goes_on_in_a_variant_that_is_judged_too_inexact_by_now():
    assert chosen(model(bf16=UNFIT), precision="full", begun=begun_in(OPENVINO_BF16)) == OPENVINO_BF16


def test_a_day_is_not_finished_by_other_files_of_its_variant():
    with pytest.raises(PrecisionUnavailable, match="it was built anew since") as caught:
        chosen(model(), begun=begun_in(OPENVINO_INT8, "then"))
    assert "restore the model's folder" in caught.value.hint
    same = model().variant_sha256(OPENVINO_INT8)
    assert chosen(model(), begun=begun_in(OPENVINO_INT8, same)) == OPENVINO_INT8
