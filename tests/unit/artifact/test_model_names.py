import pytest

from infer_app.artifact.model_names import plain_name, short_name, versions_named
from infer_app.base.errors import UsageError

A, B, C = ("cats", "20e9059fd3558fdd"), ("cats", "20e9ffff00000000"), ("dogs", "31aa0c2e00000000")
SAME = ("hounds", C[1])
KNOWN = [A, B, C, SAME]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("cats", [A, B]),
        ("dogs", [C]),
        ("cats@20e90", [A]),
        (f"cats@{B[1]}", [B]),
        ("20e9059f", [A]),
        (A[1], [A]),
        ("31aa", [C, SAME]),
        ("hounds@31aa", [SAME]),
        ("cats@31aa", []),
        ("birds", []),
        ("birds@20e9", []),
        ("31a", []),
        ("", []),
    ],
)
def test_what_is_written_names_these_versions(wanted, found):
    assert versions_named(wanted, KNOWN) == found


def test_a_name_goes_before_an_id_and_a_whole_id_before_a_beginning():
    named_as_an_id, whole, longer = ("20e9", "0" * 16), ("m", "abcd"), ("m", "abcdef")
    assert versions_named("20e9", [*KNOWN, named_as_an_id]) == [named_as_an_id]
    assert versions_named("m@abcd", [whole, longer]) == [whole]
    assert versions_named("m@a", [("m", "a")]) == [("m", "a")]


SEVERAL, SHORT = "fits several versions: ", "an id needs at least 4 characters"


@pytest.mark.parametrize(
    ("wanted", "said"), [("cats@20e9", SEVERAL), ("20e9", SEVERAL), ("cats@20e", SHORT), ("cats@", SHORT)]
)
def test_what_fits_several_or_is_too_short_is_refused(wanted, said):
    with pytest.raises(UsageError, match=said):
        versions_named(wanted, KNOWN)


def test_a_version_is_printed_as_it_may_be_written():
    assert short_name(*A) == "cats@20e9059f"
    assert versions_named(short_name(*A), KNOWN) == [A]
    assert (plain_name("cats@20e9"), plain_name("cats")) == ("cats", "cats")
