from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from infer_app.artifact.specs import InputSpec, OutputSpec
from infer_app.base.errors import ModelError
from infer_app.build.network.validate_source import SourceOutputs, check_meaning, try_source
from infer_app.predict.runtimes.fixed_batch import as_rows
from infer_app.predict.verification.outputs import KINDS
from tests.support.networks import MEAN, SIZE, STD, Means, Network, random_pixels, traced

SPEC = InputSpec("float-nchw", MEAN, STD)
NUMBERS = np.random.default_rng(0).standard_normal((4, 8), np.float32)  # of both signs, as logits are


class Returns(nn.Module):
    """What a user's module may return instead of one row for each image."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        return self.what(x)


class Flattened(nn.Module):
    """A fixed batch, or a fixed picture: both end in the shape."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.head = nn.Linear(3 * SIZE * SIZE, 4)

    def forward(self, x):
        return self.head(x.reshape(self.batch, 3 * SIZE * SIZE))


def baked(batch):
    return traced(Flattened(batch), batch)


def trained(*layers):
    return traced(nn.Sequential(*layers), batch=4, train=True).eval()


def loosely(what):
    with torch.no_grad():
        return torch.jit.trace(Returns(what), torch.rand(2, 3, SIZE, SIZE), strict=False)


@pytest.mark.parametrize(
    ("make", "size", "message", "hint"),
    [
        *((partial(baked, n), SIZE, f"runs on {n} at a time but not on [12]", "any batch") for n in (1, 8)),
        (
            lambda: traced(Returns(lambda x: x.mean((1, 2, 3), keepdim=True).squeeze())),
            SIZE,
            "runs on 2 at a time but not on 1: 1 image gave an output of",
            "any batch",
        ),
        (lambda: traced(Flattened(-1)), 20, "can't run on pictures of 20x20", "--size, and input"),
        (lambda: loosely(lambda x: (x.mean((2, 3)), x)), SIZE, "returns a tuple, not a tensor", "wrap it"),
        (
            lambda: trained(Network(), nn.Dropout(0.5)),
            SIZE,
            "another output each time|alone gives another output",
            "eval()",
        ),
        (lambda: trained(Means(), nn.BatchNorm1d(3)), SIZE, "gives another output|another output each", ""),
        (
            lambda: traced(Returns(lambda x: x.mean((2, 3)) - x.mean((0, 2, 3)))),
            SIZE,
            "an image alone gives another output than in a batch, by up to",
            "BatchNorm",
        ),
        (lambda: traced(Returns(lambda x: x.mean((2, 3)).log() - torch.inf)), SIZE, "not finite", "mean"),
    ],
)
def test_a_module_that_could_not_work_in_every_run_is_refused(make, size, message, hint):
    with pytest.raises(ModelError, match=message) as caught:
        try_source(make(), SPEC, random_pixels(4, size=size))
    assert hint in caught.value.hint
    assert caught.value.exit_code == 12


@pytest.mark.parametrize(
    ("outputs", "spec", "num_labels", "message", "hint"),
    [
        (np.ones((4, 3)), OutputSpec(), 4, "4 labels for 3 outputs", "line i"),
        (np.ones((4, 3, 2)), OutputSpec(), None, r"shape \(3, 2\)", "--output raw"),
        (np.ones((4, 8, 7, 7)), OutputSpec("embedding"), None, r"shape \(8, 7, 7\)", "pool"),
    ],
)
def test_outputs_that_can_not_mean_what_was_asked_are_refused(outputs, spec, num_labels, message, hint):
    with pytest.raises(ModelError, match=message) as caught:
        check_meaning(SourceOutputs(as_rows(outputs), (tuple(outputs.shape[1:]),)), spec, num_labels)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("outputs", "spec", "num_labels"),
    [
        (NUMBERS[:, :3, None, None], OutputSpec(), 3),
        (np.ones((4, 1)), OutputSpec("regression"), None),
        (np.ones(4), OutputSpec("regression"), None),
        (np.ones((4, 8)), OutputSpec("embedding"), None),
        (np.ones((4, 8, 7, 7)), OutputSpec("raw"), None),
    ],
)
def test_outputs_that_fit_pass(outputs, spec, num_labels):
    check_meaning(SourceOutputs(as_rows(outputs), (tuple(outputs.shape[1:]),)), spec, num_labels)
    assert None not in KINDS[spec.kind].decode(as_rows(outputs), spec)
