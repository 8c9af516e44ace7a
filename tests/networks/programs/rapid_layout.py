"""RapidLayout's detector: a PicoDet of 608x800 pixels, trained by PaddleDetection, with its weights."""

EVERY = 3  # seconds for one photo where cores are busy


def open_program():
    import cv2
    from rapid_layout import RapidLayout

    # Of photos it finds little above its usual 0.5.
    engine = RapidLayout(conf_thresh=0.25)

    def answer(path):
        found = engine(cv2.imread(path))
        rows = zip(found.boxes, found.scores, found.class_names, strict=True)
        return [(*box, score, label) for box, score, label in rows]

    return answer
