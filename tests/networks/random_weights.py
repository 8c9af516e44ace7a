"""Random weights under which a network's answers depend on the picture, for networks whose own can't be had.

It is imported by programs, in their own environments. Untrained layers leave all pictures nearly alike: so the batch
norms take the statistics of photos, and the layers that give scores are centred and spread over them.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

NUM_PHOTOS = 16


def read_photos(folder: str, size: int) -> Tensor:
    """Return some photos stretched to a square, (n, 3, size, size) float32, 0 to 1."""
    pictures = []
    for path in sorted(Path(folder).iterdir())[::12][:NUM_PHOTOS]:
        with Image.open(path) as image:
            pictures.append(np.asarray(image.convert("RGB").resize((size, size))))
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255


@torch.no_grad()
def settle_norms(network: nn.Module, pixels: Tensor) -> None:
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    network.train()
    network(pixels)
    network.eval()
    for norm in norms:
        norm.momentum = 0.03


@torch.no_grad()
def spread_scores(network: nn.Module, layers: list[nn.Module], pixels: Tensor, share: float, spread: float) -> None:
    """Give each output of layers a standard deviation, and let a share of all be above 0."""
    found: dict[nn.Module, Tensor] = {}
    hooks = [layer.register_forward_hook(lambda layer, _, output: found.update({layer: output})) for layer in layers]
    network(pixels)
    for hook, layer in zip(hooks, layers, strict=True):
        hook.remove()
        channels = 1 if isinstance(layer, nn.Conv2d) else -1
        values = found[layer].movedim(channels, 0).flatten(1)  # of each score those of all pictures and places
        scale = spread / values.std(1)
        layer.weight *= scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
        highest = values.quantile(1 - share, 1)
        layer.bias.copy_((layer.bias - highest) * scale)
