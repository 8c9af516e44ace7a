import pytest

from infer_app.ask.export.species import Species, SpeciesNames
from infer_app.base.errors import UsageError

FOX = Species(label="red fox", scientific_name="Vulpes vulpes", taxon_id="https://example.org/5219243", rank="species")


@pytest.fixture
def read(tmp_path):
    def write_and_read(text):
        (tmp_path / "species.csv").write_text(text)
        return SpeciesNames.read(tmp_path / "species.csv")

    return write_and_read


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_file_says_what_labels_mean(read, separator):
    lines = (
        ("label", "scientific_name", "taxon_id", "rank"),
        ("red fox", "Vulpes vulpes", FOX.taxon_id, "species"),
        ("duck", "Anatidae", "", ""),
    )
    names = read("".join(f"{separator.join(line)}\n" for line in lines))
    assert names == {"red fox": FOX, "duck": Species(label="duck", scientific_name="Anatidae")}
    assert [names.name_of(label) for label in ("red fox", "duck", "Lynx lynx", "fox")] == [
        "Vulpes vulpes", "Anatidae", "Lynx lynx", None
    ]  # fmt: skip
    assert names.taxon("Vulpes vulpes") == {
        "scientificName": "Vulpes vulpes", "taxonID": FOX.taxon_id, "taxonRank": "species"
    }  # fmt: skip
    assert [names.taxon(name) for name in ("Anatidae", "Lynx lynx")] == [
        {"scientificName": "Anatidae"}, {"scientificName": "Lynx lynx"}
    ]  # fmt: skip


def test_without_a_file_a_label_may_be_a_name_itself():
    assert [SpeciesNames.read(None).name_of(label) for label in ("Vulpes vulpes", "fox")] == ["Vulpes vulpes", None]


@pytest.mark.parametrize(
    "text", ["label;scientific_name;;\nfox;Vulpes vulpes;;\n;;;\n", "label,scientific_name\nfox,Vulpes vulpes,,\n"]
)
def test_empty_columns_and_lines_that_a_spreadsheet_adds_are_left_out(read, text):
    assert read(text).name_of("fox") == "Vulpes vulpes"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name\nfox\n", "its first line names no column label"),
        ("label,latin\nfox,Vulpes\n", "line 2: no such column: latin"),
        ("label,scientific_name,\nfox,Vulpes vulpes,mine\n", r"line 2: no such column: \(without a name\)"),
        ("label,scientific_name\nfox,Vulpes vulpes,mine\n", "line 2: no such column: more values than columns"),
        ("label,scientific_name\nfox,\n", "line 2: scientific_name: Field required"),
        ("label,scientific_name,rank\nfox,Vulpes vulpes,Art\n", "line 2: rank: Input should be 'kingdom', 'phylum'"),
        ("label,scientific_name\nfox,Vulpes vulpes\nfox,Vulpes\n", "line 3: there is another line of 'fox'"),
        ("label,scientific_name\nfox,Vul\0pes\n", "line 2: it has a NUL character"),
    ],
)
def test_what_can_not_be_read_is_named_by_its_line(read, text, error):
    with pytest.raises(UsageError, match=error):
        read(text)


def test_a_file_that_is_not_there_is_named_with_the_columns_that_one_needs(tmp_path):
    with pytest.raises(UsageError, match="names.csv can't be read: No such file or directory$") as caught:
        SpeciesNames.read(tmp_path / "names.csv")
    assert caught.value.hint == "name a CSV file; columns: label, scientific_name, taxon_id, rank"
