"""faster-coco-eval: pycocotools' interface in C++."""

from tests.readers.coco_api import compare, without_objects

PACKAGES = ("faster-coco-eval==1.8.0",)


def read(exports):
    from faster_coco_eval import COCO, COCOeval_faster

    compare(exports, COCO, COCOeval_faster)
    empty = COCO(str(without_objects(exports)))
    judged = COCOeval_faster(empty, empty.loadRes([]), "bbox")  # a night without objects is no error here
    judged.evaluate()
    return exports.figure
