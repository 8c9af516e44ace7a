"""How much of a model's outputs another variant has to keep."""

from dataclasses import replace

import pytest

from infer_app.artifact.specs import OutputSpec
from infer_app.predict.verification.agreement import agreement_score, find_min_agreement
from infer_app.predict.verification.parity import Parity
from tests.support.networks import Network, built


def test_more_must_be_kept_of_labels_than_of_anything_else():
    assert [find_min_agreement(OutputSpec(kind), None) for kind in ("classification", "embedding")] == [0.99, 0.97]
    assert find_min_agreement(OutputSpec(), 0.5) == 0.5


PARITY = Parity(20, cosine=0.9, label_agreement=0.8, worst_difference=1.0, relative_difference=0.25)


@pytest.mark.parametrize(
    ("output", "num_outputs", "score"),
    [
        (OutputSpec(), 5, 0.8),
        (OutputSpec("embedding"), 5, 0.9),
        (OutputSpec("regression"), 1, 0.75),  # the cosine of a single number is 1, whatever it is
    ],
)
def test_a_model_is_judged_by_its_labels_its_directions_or_its_one_number(tmp_path, output, num_outputs, score):
    network = built(tmp_path, Network(), labels=None)
    manifest = replace(network.manifest, output=output, num_outputs=num_outputs)
    assert agreement_score(replace(network, manifest=manifest), PARITY) == score
