"""FastestDet with its weights, which no package has, and the plainest program, with the resize of its training."""

import os
import shutil
from pathlib import Path


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
        return without_overlaps(rows[rows[:, 4] >= 0.4], photo.shape)

    def without_overlaps(rows, shape):
        x, y = shape[1] / 352, shape[0] / 352
        boxes = [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in rows[:, :4].tolist()]
        kept = cv2.dnn.NMSBoxesBatched(boxes, rows[:, 4].tolist(), rows[:, 5].astype(int).tolist(), 0.4, 0.45)
        return [
            (x1 * x, y1 * y, x2 * x, y2 * y, score, labels[int(label)])
            for x1, y1, x2, y2, score, label in rows[list(kept)].tolist()
        ]

    return answer
