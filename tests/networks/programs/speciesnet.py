"""SpeciesNet's classifier on whole photos as boxes: its own cutting and resizing; random weights of another network."""

import json
from itertools import pairwise
from pathlib import Path

NUM_SPECIES = 20


def prepare(photos):
    import torch
    from random_weights import read_photos, settle_norms, spread_scores
    from torch import nn

    class Network(nn.Sequential):
        """As SpeciesNet's file: (n, 480, 480, 3) to logits."""

        def forward(self, pixels):
            return super().forward(pixels.permute(0, 3, 1, 2))

    torch.manual_seed(0)
    widths = (3, 16, 32, 64, 64)
    blocks = [
        nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU())
        for before, after in pairwise(widths)
    ]
    scores = nn.Linear(widths[-1], NUM_SPECIES)
    network = Network(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), scores)
    pixels = read_photos(photos, 480).permute(0, 2, 3, 1)
    settle_norms(network, pixels)
    spread_scores(network, [scores], pixels, share=0.5, spread=3)

    torch.jit.save(torch.jit.trace(network, torch.zeros(1, 480, 480, 3)), "classifier.pt")
    # The export of the page.
    any_number = {0: torch.export.Dim("n")}
    torch.onnx.export(network, (torch.zeros(2, 480, 480, 3),), "speciesnet.onnx", dynamic_shapes=[any_number])
    Path("species.txt").write_text("".join(f"species {number}\n" for number in range(NUM_SPECIES)))
    files = dict.fromkeys(("detector", "taxonomy", "geofence"), "none")
    files |= {"classifier": "classifier.pt", "classifier_labels": "species.txt"}
    Path("info.json").write_text(json.dumps({"version": "0", "type": "always_crop", **files}))


def open_program():
    from PIL import Image, ImageOps
    from speciesnet.classifier import SpeciesNetClassifier
    from speciesnet.utils import BBox

    classifier = SpeciesNetClassifier(".", device="cpu")

    def answer(path):
        with Image.open(path) as image:
            picture = ImageOps.exif_transpose(image).convert("RGB")
        crops = classifier.preprocess(picture, [BBox(0.0, 0.0, 1.0, 1.0)])
        found = classifier.predict(path, crops, num_classes=None)["classifications_list"][0]
        scores = dict(zip(found["classes"], found["scores"], strict=True))
        return [scores[classifier.labels[number]] for number in range(NUM_SPECIES)]

    return answer
