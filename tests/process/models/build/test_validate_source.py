import pytest
import torch
from torch import nn

from infer_app.errors import ModelError
from infer_app.models.artifact.specs import InputSpec, OutputSpec
from infer_app.models.build.validate_source import SourceOutputs, check_meaning, try_source
from infer_app.models.runtimes.fixed_batch import as_rows
from infer_app.models.runtimes.torchscript import run_source
from infer_app.models.verification.outputs import decode_outputs
from tests.support.networks import MEAN, SIZE, STD, Means, Network, random_pixels, traced

SPEC = InputSpec("float-nchw", MEAN, STD)


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


@pytest.mark.parametrize("num_images", [1, 2, 4, 7])
def test_a_sound_module_gives_what_it_gives_plainly(num_images):
    script, pixels = traced(Network()), random_pixels(num_images)
    outputs = try_source(script, SPEC, pixels)
    torch.testing.assert_close(outputs.rows, run_source(script, SPEC, pixels))
    assert outputs.shapes == (tuple(outputs.rows.shape[1:]),)


@pytest.mark.parametrize("batch", [1, 2, 4, 8])
def test_a_baked_in_batch_is_refused_and_named(batch):
    with pytest.raises(ModelError, match=f"runs on {batch} at a time but not on [12]") as caught:
        try_source(traced(Flattened(batch), batch), SPEC, random_pixels(4))
    assert "any batch" in caught.value.hint


def test_a_squeezed_output_is_refused_for_one_image():
    script = traced(Returns(lambda x: x.mean((1, 2, 3), keepdim=True).squeeze()))
    with pytest.raises(ModelError, match="runs on 2 at a time but not on 1: 1 image gave an output of"):
        try_source(script, SPEC, random_pixels(4))


def test_another_input_size_is_refused():
    with pytest.raises(ModelError, match="can't run on pictures of 20x20") as caught:
        try_source(traced(Flattened(-1)), SPEC, random_pixels(4, size=20))
    assert "--size" in caught.value.hint


def test_another_input_kind_is_refused():
    with pytest.raises(ModelError, match="can't run on pictures of 16x16") as caught:
        try_source(traced(Network()), InputSpec("uint8-nhwc"), random_pixels(4))
    assert "--input" in caught.value.hint


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (lambda x: (x.mean((2, 3)), x), "tuple"),
        (lambda x: [x.mean((2, 3)), x.mean((2, 3))], "list"),
        (lambda x: {"logits": x.mean((2, 3))}, "dict"),
    ],
)
def test_anything_but_one_tensor_is_refused(what, kind):
    with torch.no_grad():
        script = torch.jit.trace(Returns(what), torch.rand(2, 3, SIZE, SIZE), strict=False)
    with pytest.raises(ModelError, match=f"returns a {kind}, not a tensor") as caught:
        try_source(script, SPEC, random_pixels(4))
    assert "wrap it" in caught.value.hint


def test_dropout_left_on_is_refused():
    script = traced(nn.Sequential(Network(), nn.Dropout(0.5)), train=True)
    with pytest.raises(ModelError, match="another output each time|alone gives another output") as caught:
        try_source(script.eval(), SPEC, random_pixels(4))
    assert "eval()" in caught.value.hint


def test_batch_norm_in_training_mode_is_refused():
    script = traced(nn.Sequential(Means(), nn.BatchNorm1d(3)), batch=4, train=True)
    with pytest.raises(ModelError) as caught:
        try_source(script.eval(), SPEC, random_pixels(4))
    assert caught.value.exit_code == 12


def test_an_output_that_depends_on_the_batch_is_refused():
    script = traced(Returns(lambda x: x.mean((2, 3)) - x.mean((0, 2, 3))))
    with pytest.raises(ModelError, match="an image alone gives another output than in a batch, by up to") as caught:
        try_source(script, SPEC, random_pixels(4))
    assert "BatchNorm" in caught.value.hint


def test_outputs_that_are_not_finite_are_refused():
    script = traced(Returns(lambda x: x.mean((2, 3)).log() - torch.inf))
    with pytest.raises(ModelError, match="not finite") as caught:
        try_source(script, SPEC, random_pixels(4))
    assert "--mean" in caught.value.hint


@pytest.mark.parametrize(
    ("outputs", "spec", "num_labels", "message", "hint"),
    [
        (torch.randn(4, 3), OutputSpec(), 4, "4 labels for 3 outputs", "line i"),
        (torch.randn(4, 3, 2), OutputSpec(), None, r"shape \(3, 2\)", "--output raw"),
        (torch.randn(4, 8, 7, 7), OutputSpec("embedding"), None, r"shape \(8, 7, 7\)", "pool"),
        (torch.randn(4, 1), OutputSpec(), None, "over one output", "sigmoid"),
        (torch.randn(4, 3).softmax(1), OutputSpec(), None, "probabilities already", "--activation none"),
        (torch.randn(4, 3), OutputSpec(activation="none"), None, "not scores", "--activation softmax"),
    ],
)
def test_outputs_that_can_not_mean_what_was_asked_are_refused(outputs, spec, num_labels, message, hint):
    with pytest.raises(ModelError, match=message) as caught:
        check_meaning(SourceOutputs(as_rows(outputs), (tuple(outputs.shape[1:]),)), spec, num_labels)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("outputs", "spec", "num_labels"),
    [
        (torch.randn(4, 3), OutputSpec(), 3),
        (torch.randn(4, 3, 1, 1), OutputSpec(), 3),
        (torch.randn(4, 1), OutputSpec(activation="sigmoid"), 1),
        (torch.randn(4, 3).softmax(1), OutputSpec(activation="none"), 3),
        (torch.randn(4, 1), OutputSpec("regression"), None),
        (torch.randn(4), OutputSpec("regression"), None),
        (torch.randn(4, 8), OutputSpec("embedding"), None),
        (torch.randn(4, 8, 7, 7), OutputSpec("raw"), None),
    ],
)
def test_outputs_that_fit_pass(outputs, spec, num_labels):
    check_meaning(SourceOutputs(as_rows(outputs), (tuple(outputs.shape[1:]),)), spec, num_labels)
    assert None not in decode_outputs(as_rows(outputs), spec)
