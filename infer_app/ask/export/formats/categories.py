"""Numbers of labels in a file: their class indices, so that files of several days agree."""

from collections.abc import Sequence

from infer_app.base.domain import MAX_CLASS


class Categories(dict[tuple[int, str], int]):
    """The number of each (class index, label) that was looked up, which is the class index if that is free.

    Another version of a model may have given an index to another label: that label keeps the number that it has, or
    gets one that no label has. Where versions have labels, a class that none of them names gets one above all indices.
    """

    def __init__(self, labels_by_version: Sequence[Sequence[str]] = ()) -> None:
        """Give numbers to the known labels of each version, so that the order of rows decides nothing.

        A version that is added at the end changes no number.
        """
        super().__init__()
        self._has_labels = False  # until all of them have numbers
        self.labels: dict[int, str] = {}  # by number
        for labels in labels_by_version:
            for key in enumerate(labels):
                self[key]
        self._has_labels = any(labels_by_version)

    def __missing__(self, key: tuple[int, str]) -> int:
        number, label = key
        if self._has_labels and label == str(number):
            number += MAX_CLASS + 1  # no version names this class: a later one may give its index to another label
        if self.labels.get(number, label) != label:
            free = max(self.labels) + 1
            number = next((known for known, name in self.labels.items() if name == label), free)
        self.labels[number] = label
        self[key] = number
        return number
