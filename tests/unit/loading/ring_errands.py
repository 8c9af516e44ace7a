from infer_app.loading.ring import Ring


def fill(ring: Ring, slot: int, value: int) -> None:
    ring.pixels[slot] = value
