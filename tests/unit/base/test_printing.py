import pytest

from infer_app.base.printing import counted, one_line, percent, printed_options, remember_config, with_config


@pytest.mark.parametrize(("number", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images"), (1204, "1,204 images")])
def test_only_one_has_no_s(number: int, text: str):
    assert counted(number, "image") == text


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


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    yield
    monkeypatch.delenv("INFER_CONFIG", raising=False)
    remember_config([])


@pytest.mark.parametrize(
    ("arguments", "variable", "named"),
    [
        (["status", "--days", "3"], "", ""),
        (["retry", "--config", "my lab.toml", "--date", "today"], "", " --config 'my lab.toml'"),
        (["retry", "--config=my lab.toml"], "", " --config 'my lab.toml'"),
        (["status"], "lab.toml", " --config lab.toml"),
        (["status", "-c", "other.toml"], "lab.toml", " --config other.toml"),
    ],
)
def test_a_printed_command_names_the_settings_file_of_this_one(arguments, variable, named, monkeypatch):
    monkeypatch.setenv("INFER_CONFIG", variable)
    remember_config(arguments)
    assert printed_options("a b", "pets@1234") == f" --model 'a b' --model pets@1234{named}"
    told = with_config("run `infer db upgrade`, or `infer init` for a `SELECT`; `infer retry --image 7`")
    assert told == f"run `infer db upgrade{named}`, or `infer init` for a `SELECT`; `infer retry --image 7{named}`"
