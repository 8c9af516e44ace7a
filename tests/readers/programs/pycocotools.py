"""pycocotools: the evaluation of COCO, by boxes."""

from tests.readers.coco_api import compare, without_objects
from tests.readers.reader import refusal, same

PACKAGES = ("pycocotools==2.0.11",)


def read(exports):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, results = compare(exports, COCO, COCOeval)
    # Of annotations without a segmentation only results have one, that of their boxes: so `iouType` is "bbox".
    same(refusal(truth.annToMask, truth.loadAnns([1])[0]), KeyError)
    assert results.annToMask(results.loadAnns([1])[0]).any()
    # Of no results it can't say whether they are boxes.
    same(refusal(COCO(str(without_objects(exports))).loadRes, []), IndexError)
    return exports.figure
