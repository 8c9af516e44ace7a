"""An export of an Ultralytics classifier with two classes."""

from infer_app.base.size import Size

# What its entries say: task classify, imgsz 64 and the names of the classes.
CLASSIFIER = {
    "labels": ("cat", "big dog"),
    "size": Size.square(64),
    "mean": "0,0,0",
    "std": "1,1,1",
    "recipe": "resize-crop",
    "crop_pct": 1.0,
    "interpolation": "bilinear",
    "activation": "none",
}
