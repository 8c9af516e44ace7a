"""Run a source on a few pictures before anything is stored, and refuse one that could not work in every run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from infer_app.artifact.activation import check_activation
from infer_app.artifact.specs import InputSpec, OutputSpec
from infer_app.base.errors import ModelError, first_line
from infer_app.base.printing import counted
from infer_app.predict.runtimes.torchscript import rows_of, run_source

BATCH_TOLERANCE = 1e-4  # relative to the largest output: rounding by another order of additions stays well below
_OTHER_BATCHES = (4, 8, 16, 32, 64)  # common batch sizes of traces
_BATCH_HINT = "trace or script it so that it takes any batch: use x.shape[0] or flatten(1), never a fixed number"

_Run = Callable[[Tensor], Tensor | Sequence[Tensor]]


@dataclass(frozen=True)
class SourceOutputs:
    """The outputs of a source, unchanged."""

    rows: np.ndarray  # (n, D) float32: of several outputs one after the other
    shapes: tuple[tuple[int, ...], ...]  # of one picture's outputs


def try_source(module: nn.Module, spec: InputSpec, pixels: np.ndarray, allow_several: bool = False) -> SourceOutputs:
    """Return the outputs of the source for (n, H, W, 3) uint8 pixels.

    Raises ModelError with what to do if the module can't run on them, supports only one batch size, returns anything
    but one tensor (or several with `allow_several`), gives other outputs when it is repeated or when the batch has
    other images, or gives numbers that are not finite.
    """
    pictures = torch.from_numpy(pixels)
    trial = torch.cat([pictures, pictures.flip(1), 255 - pictures])[:3]
    check_batches(module, spec, trial, allow_several)

    def run(batch: Tensor) -> Tensor:
        return rows_of(run_source(module, spec, batch))

    together = run(trial)
    _check_repeatable(together, run(trial))
    _check_batch_independence(together, _joined([run(trial[:1]), run(trial[1:])]))
    rows = _joined([run(batch) for batch in torch.split(pictures, 3)])
    if not rows.isfinite().all():
        raise ModelError("the outputs for the golden images are not finite", "check the weights, mean and std")
    outputs = _outputs(run_source(module, spec, trial[:1]))
    return SourceOutputs(rows.numpy(), tuple(tuple(one.shape[1:]) for one in outputs))


def check_batches(module: nn.Module, spec: InputSpec, trial: Tensor, allow_several: bool = True) -> None:
    """Refuse a module that can't run on one, two and three pictures, or that returns anything but one tensor.

    `trial`: (3, H, W, 3) uint8. With `allow_several` it may return a tuple of tensors. Raises ModelError with what to
    do.
    """
    run = partial(run_source, module, spec)
    failures = {size: failure for size in (1, 2, 3) if (failure := _failure(run, trial[:size], allow_several))}
    if not failures:
        return
    size, failure = next(iter(failures.items()))
    if isinstance(failure, ModelError):
        raise failure
    fits = [n for n in (1, 2, 3) if n not in failures] or _other_batches(run, trial, allow_several)
    if fits:
        raise ModelError(
            f"the module runs on {fits[0]} at a time but not on {size}: {first_line(failure)}", _BATCH_HINT
        )
    height, width = trial.shape[1:3]
    raise ModelError(
        f"the module can't run on pictures of {width}x{height}: {first_line(failure)}",
        "check --size, and input: float-nchw is normalised float32 (n, 3, H, W), uint8-nhwc is (n, H, W, 3)",
    ) from failure


def check_meaning(outputs: SourceOutputs, spec: OutputSpec, num_labels: int | None) -> None:
    """Raise ModelError if the outputs can't have the meaning that `spec` gives them.

    Dimensions of length 1 after (n, D) are allowed.
    """
    (shape,) = outputs.shapes
    if spec.kind != "raw" and any(length != 1 for length in shape[1:]):
        raise ModelError(
            f"one image's output has the shape {shape}, {spec.kind} needs one row of numbers",
            "pool or flatten it in the module, or build with --output raw; of a detector, with --output detection",
        )
    num_outputs = outputs.rows.shape[1]
    if num_labels is not None and num_labels != num_outputs:
        raise ModelError(
            f"{counted(num_labels, 'label')} for {counted(num_outputs, 'output')}",
            "class i is line i of the labels file",
        )
    if spec.kind == "classification":
        check_activation(outputs.rows, spec.activation)


def _joined(batches: Sequence[Tensor]) -> Tensor:
    """Return the rows of several batches, (n, D). Raises ModelError if D is not always the same."""
    lengths = sorted({rows.shape[1] for rows in batches})
    if len(lengths) > 1:
        raise ModelError(
            f"the network gives {lengths[0]:,} numbers for some pictures and {lengths[-1]:,} for others",
            "export it so that it always gives as many: a detector its boxes filled up with those of a score of 0",
        )
    return torch.cat(list(batches))


def _outputs(output: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


def _failure(run: _Run, batch: Tensor, allow_several: bool) -> Exception | None:
    try:
        output = run(batch)
    except Exception as error:  # the user's code runs here
        return error
    if not isinstance(output, Tensor) and not (allow_several and _are_tensors(output)):
        return ModelError(
            f"the module returns a {type(output).__name__}, not a tensor",
            "wrap it in a module that returns the one tensor to be stored"
            + ("; a detector may return a tuple of tensors" if allow_several else ""),
        )
    for one in _outputs(output):
        if one.dim() == 0 or one.shape[0] != batch.shape[0]:
            return ValueError(f"{counted(batch.shape[0], 'image')} gave an output of {tuple(one.shape)}")
    return None


def _are_tensors(output: object) -> bool:
    return isinstance(output, tuple | list) and bool(output) and all(isinstance(one, Tensor) for one in output)


def _other_batches(run: _Run, trial: Tensor, allow_several: bool) -> list[int]:
    return [n for n in _OTHER_BATCHES if _failure(run, trial[:1].expand(n, -1, -1, -1), allow_several) is None][:1]


def _check_repeatable(first: Tensor, second: Tensor) -> None:
    if first.shape != second.shape or not _same(first, second):
        raise ModelError(
            "the same images give another output each time", "is dropout on? call model.eval() before tracing it"
        )


def _check_batch_independence(together: Tensor, apart: Tensor) -> None:
    if not _same(together, apart):
        worst = (together - apart).abs().max().item()
        raise ModelError(
            f"an image alone gives another output than in a batch, by up to {worst:.2g}",
            "was BatchNorm in training mode? call model.eval() before tracing it",
        )


def _same(one: Tensor, other: Tensor) -> bool:
    """Compare within the tolerance; values that are not finite at the same places are equal here and refused later."""
    scale = one.abs().nan_to_num(posinf=0).max().item()
    return torch.allclose(one, other, rtol=0, atol=BATCH_TOLERANCE * max(scale, 1e-6), equal_nan=True)
