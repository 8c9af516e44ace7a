"""RF-DETR Nano of 384², exported by its own function; random weights."""

from pathlib import Path

EVERY = 3  # seconds for one photo where cores are busy
WEIGHTS, CLASSES = "weights.pth", 3


def prepare(photos):
    import torch
    from random_weights import read_photos, spread_scores
    from rfdetr import RFDETRNano

    torch.manual_seed(0)
    detector = RFDETRNano(pretrain_weights=None, num_classes=CLASSES)
    network = detector.model.model.eval()
    spread_scores(network, [network.class_embed], read_photos(photos, 384), share=0.01, spread=2)
    torch.save(network.state_dict(), WEIGHTS)
    Path("labels.txt").write_text("".join(f"{number}\n" for number in range(network.class_embed.out_features)))
    detector.export(output_dir=".")


def open_program():
    import torch
    from PIL import Image, ImageOps
    from rfdetr import RFDETRNano

    detector = RFDETRNano(pretrain_weights=None, num_classes=CLASSES)
    detector.model.model.load_state_dict(torch.load(WEIGHTS))

    def answer(path):
        with Image.open(path) as image:
            picture = ImageOps.exif_transpose(image).convert("RGB")
        found = detector.predict(picture, threshold=0.25)
        rows = zip(found.xyxy.tolist(), found.confidence.tolist(), found.class_id.tolist(), strict=True)
        return [(*box, score, str(number)) for box, score, number in rows]

    return answer
