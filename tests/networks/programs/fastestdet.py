"""FastestDet with its weights. No package has it: this is the plainest program with the resize of its training.

Like its own it takes objects above 0.65, and cuts boxes to whole pixels.
"""

import os
import shutil
from pathlib import Path

WHOLE_PIXELS = True


def prepare(_):
    folder = Path(os.environ["TEST_DATA"], "networks", "fastestdet")
    for name in ("FastestDet.onnx", "coco.names"):
        shutil.copy(folder / name, name)


def open_program():
    import cv2
    import onnxruntime
    from fastestdet import head  # docs/networks/fastestdet.py

    session = onnxruntime.InferenceSession("FastestDet.onnx", providers=["CPUExecutionProvider"])
    labels = Path("coco.names").read_text().split("\n")

    def answer(path):
        photo = cv2.imread(path)
        pixels = cv2.resize(photo, (352, 352)).transpose(2, 0, 1)[None].astype("float32") / 255
        (rows,) = head(*session.run(None, {session.get_inputs()[0].name: pixels}), size=(352, 352))
        x, y = photo.shape[1] / 352, photo.shape[0] / 352
        return [
            (int(x1 * x), int(y1 * y), int(x2 * x), int(y2 * y), score, labels[int(label)])
            for x1, y1, x2, y2, score, label in without_overlaps(rows[rows[:, 4] > 0.65])
        ]

    def without_overlaps(rows):
        boxes = [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in rows[:, :4].tolist()]
        classes = rows[:, 5].astype(int).tolist()
        return rows[list(cv2.dnn.NMSBoxesBatched(boxes, rows[:, 4].tolist(), classes, 0.65, 0.45))].tolist()

    return answer
