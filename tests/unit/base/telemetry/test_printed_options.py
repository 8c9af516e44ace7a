import pytest

from infer_app.base.telemetry import printed_options as module
from infer_app.base.telemetry.printed_options import printed_options, remember_config, with_config


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(module, "_config", [])


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
