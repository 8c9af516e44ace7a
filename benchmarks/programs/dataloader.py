"""Predict with a torch DataLoader over the rows of a table, and write the predictions to another table.

Nothing here is slow on purpose, and nothing handles a broken image, a crash or a second start.
"""

from __future__ import annotations

from collections.abc import Callable

from flags import read_flags
from network import best_classes, open_network
from pixels import DECODERS, input_of
from table import Table
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

Sample = tuple[int, Tensor]


class Images(Dataset[Sample]):
    """The (id, pixels) of each row."""

    def __init__(self, rows: list[tuple[int, str]], decode: Callable[[str], Tensor]) -> None:
        self.rows = rows
        self.decode = decode

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        image_id, location = self.rows[index]
        return image_id, self.decode(location)


def main() -> None:
    flags = read_flags(__doc__)
    table = Table(flags.database)
    images = Images(table.images(flags.limit), DECODERS[flags.decoder])
    loader = DataLoader(images, batch_size=flags.batch_size, num_workers=flags.workers)
    batches = iter(loader)  # workers start to load while the network is prepared
    predict = open_network(flags.network, flags.ready, flags.batch_size, flags.threads, input_of(flags.decoder))
    for ids, pixels in batches:
        table.write(ids.tolist(), *best_classes(predict(pixels)))


if __name__ == "__main__":
    main()
