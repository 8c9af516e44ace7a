import pytest

from infer_app.base.telemetry.printable import one_line, percent


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Chat à l'œil 猫 🐈.jpg", "Chat à l'œil 猫 🐈.jpg"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\udce9b", "a\\udce9b"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
    ],
)
def test_what_does_not_print_is_shown_as_an_escape(text, told):
    assert one_line(text) == told


def test_a_long_text_is_cut():
    assert one_line("x" * 1000, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("share", "told"), [(0, "0 %"), (0.0043, "0.43 %"), (0.043, "4.3 %"), (0.43, "43 %"), (1, "100 %")]
)
def test_shares_have_two_figures(share, told):
    assert percent(share) == told
