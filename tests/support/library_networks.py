"""Small networks of timm, torchvision and transformers with random weights, saved as their users have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.torchvision_ops import sitecustomize

SITE = Path(sitecustomize.__file__).parent  # for PYTHONPATH of a command
LABELS = ("cat", "dog", "bird", "fish", "none of them")


def save_hugging_face(folder: Path, network: str = "ViT", processor: str = "ViT", **steps: Any) -> Path:
    """Save a classifier of LABELS, ViT or ResNet, and an image processor with these steps; 32 pixels wide, say."""
    transformers = pytest.importorskip("transformers")
    labels = {"id2label": dict(enumerate(LABELS)), "num_labels": len(LABELS)}
    sizes = {
        "ViT": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        | {"image_size": 32, "patch_size": 8},
        "ResNet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]},
    }
    torch.manual_seed(0)
    config = getattr(transformers, f"{network}Config")(**sizes[network], **labels)
    getattr(transformers, f"{network}ForImageClassification")(config).save_pretrained(folder)
    getattr(transformers, f"{processor}ImageProcessor")(**steps).save_pretrained(folder)
    return folder


def save_timm(folder: Path, name: str, **config: Any) -> Path:
    """Save a network of LABELS as a timm folder, with `config` in its pretrained_cfg."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=len(LABELS))
    network.pretrained_cfg = {**network.pretrained_cfg, **config, "label_names": list(LABELS)}
    timm.models.save_for_hf(network, str(folder), safe_serialization=True)
    return folder


def save_weights(path: Path, module: torch.nn.Module) -> Path:
    torch.save(module.state_dict(), path)
    return path
