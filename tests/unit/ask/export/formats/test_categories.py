from itertools import permutations

from infer_app.ask.export.formats.categories import Categories


def test_the_number_of_a_label_is_its_class_index():
    categories = Categories()
    assert [categories[key] for key in [(3, "dog"), (0, "cat"), (3, "dog")]] == [3, 0, 3]
    assert categories.labels == {3: "dog", 0: "cat"}


def test_labels_of_another_version_get_numbers_of_their_own():
    categories = Categories()
    assert [categories[key] for key in [(0, "cat"), (1, "dog")]] == [0, 1]
    assert [categories[key] for key in [(0, "dog"), (1, "fox"), (2, "cow")]] == [1, 2, 3]
    assert categories.labels == {0: "cat", 1: "dog", 2: "fox", 3: "cow"}


def test_a_class_that_no_version_names_keeps_its_number_when_a_version_is_added():
    rows = [(7, "7"), (1, "1"), (0, "cat")]
    for versions in ([("cat", "dog")], [("cat", "dog"), tuple("abcdefgh")], [("cat", "dog"), ()]):
        for order in permutations(rows):
            categories = Categories(versions)
            assert {key: categories[key] for key in order} == {(7, "7"): 100_007, (1, "1"): 100_001, (0, "cat"): 0}


def test_indices_are_the_numbers_of_a_model_without_labels():
    assert Categories([(), ()])[7, "7"] == 7
    assert Categories([("0", "1"), ()])[1, "1"] == 1  # which its labels name so


def test_the_order_of_rows_decides_no_number_where_the_labels_of_each_version_are_known():
    versions = ("cat", "dog"), ("cat", "fox", "cow")
    for rows in permutations([(0, "cat"), (1, "dog"), (1, "fox"), (2, "cow")]):
        categories = Categories(versions)
        assert {label: categories[number, label] for number, label in rows} == {"cat": 0, "dog": 1, "fox": 2, "cow": 3}
