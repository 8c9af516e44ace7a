"""Pure decisions: the manifests and speeds are written down, and nothing is loaded."""

import pytest

from infer_app.errors import ModelError, PrecisionUnavailable, UsageError
from infer_app.model_variants import (
    CUDA_FP16,
    OPENVINO_BF16,
    OPENVINO_FP32,
    OPENVINO_INT8,
    TORCHSCRIPT,
    TRT_BF16,
    TRT_FP16,
)
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.artifact.specs import InputSpec, OutputSpec, Tolerance
from infer_app.models.runtimes.gpu_probe import UNKNOWN
from infer_app.models.selection.tuning import Speed
from infer_app.models.selection.variant_selection import (
    VariantRequest,
    VariantSelection,
    choose_variant,
)
from infer_app.recipe import Recipe

SAME = {"parity": {"cosine": 0.999999, "relative_difference": 1e-6}}
GOOD_INT8 = {"parity": {"cosine": 0.99, "relative_difference": 0.1}, "meets_bar": True, "is_faster": True}
GOOD_HALF = {
    "parity": {"cosine": 0.99998, "relative_difference": 1e-3},
    "tolerance": {"cosine": 0.999, "relative": 0.02},
}
NO_GPU = "no NVIDIA GPU is found: nvidia-smi must show one, and a container be started with it"
FAST_OPENVINO = {TORCHSCRIPT: Speed(4, 14.0), OPENVINO_FP32: Speed(2, 11.5), OPENVINO_INT8: Speed(8, 6.0)}


def manifest(**variants):
    """With the three variants, all of them good, but for what is given: torchscript, fp32 or int8; None leaves out."""
    given = {"torchscript": SAME, "fp32": SAME, "int8": GOOD_INT8} | variants
    names = {"torchscript": TORCHSCRIPT, "fp32": OPENVINO_FP32, "int8": OPENVINO_INT8}
    return Manifest(
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
        variants={names.get(name, name): details for name, details in given.items() if details is not None},
    )


def nothing_is_missing(variant, requires):
    return None


def openvino_is_unknown(variant, requires):
    return None if variant == TORCHSCRIPT else UNKNOWN


def gpu_is_missing(variant, requires):
    return None if variant.startswith("cpu-") else NO_GPU


def tensorrt_differs(variant, requires):
    return f"built for {requires}" if variant.startswith("trt-") else None


def with_gpu(**variants):
    """With TensorRT's and CUDA's beside those of the CPU."""
    plan = GOOD_HALF | {"requires": {"compute_capability": "9.0"}}
    return manifest(**{TRT_FP16: plan, CUDA_FP16: GOOD_HALF} | variants)


def choose(manifest, wish=VariantRequest(), speeds=FAST_OPENVINO, missing=nothing_is_missing):  # noqa: B008
    return choose_variant(manifest, speeds, wish, missing)


def test_the_fastest_here_of_the_fp32_variants_is_taken_and_the_others_told():
    assert choose(manifest()) == VariantSelection(
        OPENVINO_FP32,
        {OPENVINO_INT8: "int8 is not chosen: --precision int8", TORCHSCRIPT: "slower here: 14.00 ms per image"},
    )
    slow_openvino = {TORCHSCRIPT: Speed(4, 14.0), OPENVINO_FP32: Speed(2, 15.25)}
    assert choose(manifest(int8=None), speeds=slow_openvino) == VariantSelection(
        TORCHSCRIPT, {OPENVINO_FP32: "slower here: 15.25 ms per image"}
    )


def test_what_was_not_measured_is_taken_last_and_the_oldest_variant_where_nothing_was():
    only_openvino = {OPENVINO_FP32: Speed(2, 99.0)}
    assert choose(manifest(int8=None), speeds=only_openvino) == VariantSelection(
        OPENVINO_FP32, {TORCHSCRIPT: "not measured here"}
    )
    assert choose(manifest(int8=None), speeds={}) == VariantSelection(TORCHSCRIPT, {OPENVINO_FP32: "not measured here"})


def test_int8_is_taken_where_it_is_asked_for_and_good():
    assert choose(manifest(), VariantRequest(precision="int8")) == VariantSelection(
        OPENVINO_INT8, {TORCHSCRIPT: "int8 is chosen", OPENVINO_FP32: "int8 is chosen"}
    )


def test_int8_stays_chosen_on_a_host_where_it_is_slower():
    """Whatever a host measures, a label is made in the precision that was asked for."""
    slow_int8 = FAST_OPENVINO | {OPENVINO_INT8: Speed(1, 50.0)}
    assert choose(manifest(), VariantRequest(precision="int8"), slow_int8).variant == OPENVINO_INT8


def test_int8_never_falls_back_to_fp32_by_itself():
    with pytest.raises(ModelError) as caught:
        choose(manifest(), VariantRequest(precision="int8"), missing=openvino_is_unknown)
    told = f"{TORCHSCRIPT}: int8 is chosen; {OPENVINO_FP32}: {UNKNOWN}; {OPENVINO_INT8}: {UNKNOWN}"
    assert caught.value.message == f"pets: no int8 variant can run here ({told})"
    assert (caught.value.exit_code, "--precision full" in caught.value.hint) == (12, True)


def test_fp32_never_falls_back_to_int8_by_itself():
    broken = {"parity": {"cosine": 0.5, "relative_difference": 1.0}}
    with pytest.raises(ModelError, match="pets: no fp32 variant can run here"):
        choose(manifest(torchscript=broken, fp32=broken))


@pytest.mark.parametrize(
    ("cosine", "relative_difference", "why"),
    [
        (0.9998, 1e-6, "cosine 0.999800 is below 0.9999"),
        (float("nan"), float("nan"), "cosine nan is below 0.9999"),
        (0.99995, 0.01, "outputs differ by 0.01 of the largest, not 0.001 at most"),
    ],
)
def test_an_fp32_variant_that_gives_other_outputs_is_passed_over(cosine, relative_difference, why):
    """The golden check of every run would refuse it."""
    other = {"parity": {"cosine": cosine, "relative_difference": relative_difference}}
    assert choose(manifest(fp32=other, int8=None)) == VariantSelection(TORCHSCRIPT, {OPENVINO_FP32: why})


def test_the_variant_that_is_asked_for_is_taken_whatever_speaks_against_it():
    bad = manifest(int8=GOOD_INT8 | {"meets_bar": False})
    for variant in (TORCHSCRIPT, OPENVINO_FP32, OPENVINO_INT8):
        assert choose(bad, VariantRequest(variant)) == VariantSelection(variant, {})


def test_the_variant_that_is_asked_for_is_never_replaced_by_another():
    with pytest.raises(ModelError) as caught:
        choose(manifest(), VariantRequest(OPENVINO_FP32), missing=openvino_is_unknown)
    assert caught.value.message == f"{OPENVINO_FP32} can't run here: {UNKNOWN}"
    assert (caught.value.exit_code, "--variant auto" in caught.value.hint) == (12, True)


def test_a_variant_the_model_has_not_is_a_wrong_flag():
    with pytest.raises(UsageError, match=f"pets has no variant '{OPENVINO_INT8}'") as caught:
        choose(manifest(int8=None), VariantRequest(OPENVINO_INT8))
    assert (caught.value.exit_code, caught.value.hint) == (2, f"it has {TORCHSCRIPT}, {OPENVINO_FP32}; or auto")


def test_a_day_is_not_finished_with_other_files_of_its_variant():
    same = manifest().variant_sha256(OPENVINO_INT8)
    assert choose(manifest(), VariantRequest(resume_variant=OPENVINO_INT8, resume_sha256=same)).variant == OPENVINO_INT8
    with pytest.raises(PrecisionUnavailable, match="it was built anew since") as caught:
        choose(manifest(), VariantRequest(resume_variant=OPENVINO_INT8, resume_sha256="then"))
    assert caught.value.hint == f"--variant {OPENVINO_INT8} finishes it nevertheless"


@pytest.mark.parametrize("resume_variant", [TORCHSCRIPT, OPENVINO_FP32, OPENVINO_INT8])
@pytest.mark.parametrize("precision", [None, "int8"])
def test_a_day_goes_on_with_the_variant_it_began_with(resume_variant, precision):
    wish = VariantRequest(precision=precision, resume_variant=resume_variant)
    assert choose(manifest(), wish).variant == resume_variant


def test_a_day_whose_variant_is_gone_goes_on_in_its_precision():
    wish = VariantRequest(precision="int8", resume_variant=OPENVINO_FP32)
    assert choose(manifest(fp32=None), wish).variant == TORCHSCRIPT
    assert choose(manifest(), wish, missing=openvino_is_unknown).variant == TORCHSCRIPT
    with pytest.raises(ModelError, match="no int8 variant can run here"):
        choose(manifest(int8=None), VariantRequest(resume_variant=OPENVINO_INT8))


def test_a_day_that_began_with_a_variant_of_another_version_is_told_so():
    with pytest.raises(ModelError, match="variant 'gpu-tensorrt' is not known here") as caught:
        choose(manifest(), VariantRequest(resume_variant="gpu-tensorrt"))
    assert caught.value.hint == "update infer_app"


def test_a_gpu_comes_before_the_cpu_and_tensorrt_before_cuda():
    choice = choose(with_gpu())
    assert (choice.variant, choice.device) == (TRT_FP16, "cuda")
    first = f"{TRT_FP16} comes first"
    assert choice.passed_over == {
        CUDA_FP16: first,
        TORCHSCRIPT: first,
        OPENVINO_FP32: first,
        OPENVINO_INT8: "int8 is not chosen: --precision int8",
    }


def test_each_candidate_that_can_not_run_is_passed_over_with_its_reason():
    choice = choose(with_gpu(), missing=tensorrt_differs)
    assert choice.variant == CUDA_FP16
    assert choice.passed_over[TRT_FP16] == "built for {'compute_capability': '9.0'}"
    choice = choose(with_gpu(), missing=gpu_is_missing)
    assert (choice.variant, choice.device) == (OPENVINO_FP32, "cpu")
    assert (choice.passed_over[TRT_FP16], choice.passed_over[CUDA_FP16]) == (NO_GPU, NO_GPU)


def test_a_half_precision_below_its_bar_is_passed_over():
    low = GOOD_HALF | {"parity": {"cosine": 0.9985, "relative_difference": 1e-3}}
    choice = choose(with_gpu(**{TRT_FP16: low}))
    assert (choice.variant, choice.passed_over[TRT_FP16]) == (CUDA_FP16, "cosine 0.998500 is below 0.999")


def test_the_cpu_can_be_asked_for():
    choice = choose(with_gpu(), VariantRequest(device="cpu", precision="int8"))
    assert (choice.variant, choice.passed_over[TRT_FP16]) == (OPENVINO_INT8, "the device is cpu")


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (with_gpu(), "let --device auto take the CPU"),
        (manifest(), "`infer model build SOURCE --name pets --variant trt`"),
    ],
    ids=["not here", "none built"],
)
def test_a_gpu_that_is_asked_for_is_never_replaced_by_the_cpu(model, hint):
    with pytest.raises(ModelError, match="pets: no variant can run on a GPU here") as caught:
        choose(model, VariantRequest(device="cuda"), missing=gpu_is_missing)
    assert (caught.value.exit_code, hint in caught.value.hint) == (12, True)
    assert choose(with_gpu(), VariantRequest(device="cuda"), missing=tensorrt_differs).variant == CUDA_FP16


@pytest.mark.parametrize("name", ["trt", TRT_FP16])
def test_a_plan_that_is_asked_for_is_never_replaced(name):
    assert choose(with_gpu(), VariantRequest(name)) == VariantSelection(TRT_FP16, {})
    with pytest.raises(ModelError, match=f"{TRT_FP16} can't run here: built for") as caught:
        choose(with_gpu(), VariantRequest(name), missing=tensorrt_differs)
    assert caught.value.exit_code == 12
    with pytest.raises(ModelError, match=f"pets has no variant '{TRT_FP16}'") as caught:
        choose(manifest(), VariantRequest(name))
    assert (caught.value.exit_code, f"--variant {TRT_FP16}" in caught.value.hint) == (12, True)


def test_a_device_and_a_variant_of_another_one_are_a_wrong_flag():
    with pytest.raises(UsageError, match=f"{TRT_FP16} does not run on cpu"):
        choose(with_gpu(), VariantRequest(TRT_FP16, device="cpu"))


def test_a_day_keeps_its_precision_on_a_machine_with_and_without_a_gpu():
    assert choose(with_gpu(), VariantRequest(resume_variant=TORCHSCRIPT)).variant == TORCHSCRIPT
    assert choose(with_gpu(torchscript=None), VariantRequest(resume_variant=TORCHSCRIPT)).variant == OPENVINO_FP32
    assert choose(with_gpu(), VariantRequest(resume_variant=CUDA_FP16)).variant == CUDA_FP16
    assert choose(with_gpu(**{CUDA_FP16: None}), VariantRequest(resume_variant=CUDA_FP16)).variant == TRT_FP16
    other = with_gpu(**{TRT_FP16: None, CUDA_FP16: None, TRT_BF16: GOOD_HALF})
    for model, missing in ((with_gpu(), gpu_is_missing), (other, nothing_is_missing)):
        with pytest.raises(ModelError, match="no fp16 variant can run here"):
            choose(model, VariantRequest(resume_variant=TRT_FP16), missing=missing)


# --- the precision that is asked for --------------------------------------------------------------------------------

GOOD_BF16 = {"parity": {"cosine": 0.999, "relative_difference": 0.01}, "meets_bar": True, "is_faster": True}
NO_BF16 = "this CPU does not compute bf16"


def bf16_is_missing(variant, requires):
    return NO_BF16 if variant == OPENVINO_BF16 else gpu_is_missing(variant, requires)


@pytest.mark.parametrize(
    ("precision", "variant"), [("full", OPENVINO_FP32), ("half", OPENVINO_BF16), ("int8", OPENVINO_INT8)]
)
def test_a_cpu_runs_the_precision_that_is_asked_for_whatever_is_faster(precision, variant):
    model = with_gpu(**{OPENVINO_BF16: GOOD_BF16})
    speeds = FAST_OPENVINO | {OPENVINO_BF16: Speed(2, 40.0)}
    assert choose(model, VariantRequest(precision=precision), speeds, gpu_is_missing).variant == variant


def test_half_is_the_gpus_where_there_is_one_and_full_is_never():
    model = with_gpu(**{OPENVINO_BF16: GOOD_BF16})
    assert choose(model, VariantRequest(precision="half")).variant == TRT_FP16
    assert choose(model, VariantRequest(precision="full")).variant == OPENVINO_FP32


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        (manifest(), "half"),
        (manifest(**{OPENVINO_BF16: GOOD_BF16 | {"meets_bar": False}}), "half"),
        (manifest(int8=None), "int8"),
        (manifest(int8=GOOD_INT8 | {"meets_bar": False}), "int8"),
    ],
    ids=["no bf16", "bf16 changes labels", "no int8", "int8 changes labels"],
)
def test_a_precision_that_the_model_does_not_have_is_an_error_and_never_another_one(model, precision):
    with pytest.raises(ModelError) as caught:
        choose(model, VariantRequest(precision=precision), missing=gpu_is_missing)
    assert caught.value.exit_code == 12
    assert "infer model " in caught.value.hint


@pytest.mark.parametrize("precision", [None, "full", "half", "int8"])
@pytest.mark.parametrize("started", [OPENVINO_FP32, OPENVINO_BF16, OPENVINO_INT8])
def test_a_day_keeps_its_precision_whatever_is_asked_for_later(precision, started):
    model = with_gpu(**{OPENVINO_BF16: GOOD_BF16})
    request = VariantRequest(precision=precision, resume_variant=started)
    assert choose(model, request).variant == started


def test_a_day_that_began_in_bf16_waits_on_a_machine_without_it():
    model = with_gpu(**{OPENVINO_BF16: GOOD_BF16})
    request = VariantRequest(precision="half", resume_variant=OPENVINO_BF16)
    with pytest.raises(ModelError, match=NO_BF16) as caught:
        choose(model, request, missing=bf16_is_missing)
    assert caught.value.exit_code == 12
    assert f"on a machine that runs {OPENVINO_BF16}" in caught.value.hint
    with pytest.raises(ModelError, match=NO_BF16):  # a GPU's fp16 is another precision
        choose(model, request, missing=lambda name, _: NO_BF16 if name == OPENVINO_BF16 else None)


def test_a_day_whose_variant_was_judged_to_be_too_inexact_meanwhile_can_only_be_finished_in_it():
    model = manifest(**{OPENVINO_BF16: GOOD_BF16 | {"meets_bar": False}})
    with pytest.raises(ModelError, match="it changes too much") as caught:
        choose(model, VariantRequest(precision="full", resume_variant=OPENVINO_BF16))
    assert caught.value.hint == f"--variant {OPENVINO_BF16} finishes it nevertheless"


def test_a_machine_that_can_not_compute_what_is_asked_for_is_told_what_it_can_do():
    model = manifest(**{OPENVINO_BF16: GOOD_BF16})
    with pytest.raises(ModelError, match=NO_BF16) as caught:
        choose(model, VariantRequest(precision="half"), missing=bf16_is_missing)
    assert "for days not begun yet" in caught.value.hint
