import pytest

from infer_app.telemetry import printed_options as module
from infer_app.telemetry.printed_options import printed_options, remember_config, with_config


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(module, "_config", [])


def test_a_command_without_a_settings_file_of_its_own_is_printed_as_it_is():
    remember_config(["status", "--days", "3"])
    assert printed_options() == ""
    assert printed_options("a b", "pets@1234") == " --model 'a b' --model pets@1234"
    assert with_config("`infer db upgrade`") == "`infer db upgrade`"


@pytest.mark.parametrize("arguments", [["--config", "my lab.toml"], ["--config=my lab.toml"], ["-c", "my lab.toml"]])
def test_a_printed_command_names_the_settings_file_of_this_one(arguments):
    remember_config(["retry", *arguments, "--date", "today"])
    assert printed_options("pets") == " --model pets --config 'my lab.toml'"
    told = with_config("run `infer db upgrade`, or `infer init` for a `SELECT`; `infer retry --image 7`")
    upgrade, retry = (f"`infer {words} --config 'my lab.toml'`" for words in ("db upgrade", "retry --image 7"))
    assert told == f"run {upgrade}, or `infer init` for a `SELECT`; {retry}"


def test_the_settings_file_may_be_named_by_a_variable(monkeypatch):
    monkeypatch.setenv("INFER_CONFIG", "lab.toml")
    remember_config(["status"])
    assert printed_options() == " --config lab.toml"
    remember_config(["status", "-c", "other.toml"])
    assert printed_options() == " --config other.toml"
