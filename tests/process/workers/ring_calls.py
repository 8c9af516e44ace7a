from infer_app.workers.shared_ring import Ring


def fill(ring: Ring, slot: int, value: int) -> None:
    ring.pixels[slot] = value
