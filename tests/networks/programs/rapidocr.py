"""RapidOCR's classifier of the direction of text: a MobileNet of PaddleOCR, 192x48 pixels, with its weights."""


def open_program():
    import cv2
    from rapidocr_onnxruntime import RapidOCR

    classifier = RapidOCR().text_cls

    def answer(path):
        _, ((label, _),), _ = classifier([cv2.imread(path)])
        return label

    return answer
