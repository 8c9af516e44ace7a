"""NudeNet: a YOLOv8n of 320² pixels, with its weights."""

WHOLE_PIXELS = True


def open_program():
    from nudenet import NudeDetector

    detector = NudeDetector()

    def answer(path):
        boxes = ((*one["box"], one["score"], one["class"]) for one in detector.detect(path))
        return [(x, y, x + width, y + height, score, label) for x, y, width, height, score, label in boxes]

    return answer
