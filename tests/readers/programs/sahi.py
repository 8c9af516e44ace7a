"""SAHI: data sets of COCO."""

from tests.readers.reader import rounded, same

PACKAGES = ("sahi==0.12.8",)


def read(exports):
    from sahi.utils.coco import Coco

    for model in ("detector", "species"):
        coco = Coco.from_coco_dict_or_path(str(exports.folder / model / "coco.json"), image_dir=str(exports.photos))
        found = {
            image.file_name: rounded((one.category_name, *one.bbox) for one in image.annotations)
            for image in coco.images
        }
        same(found, exports.boxes("label", of=model))
    return exports.figure
