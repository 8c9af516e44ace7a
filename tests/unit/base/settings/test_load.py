import re
from pathlib import Path

import pytest

from infer_app.base.errors import UsageError
from infer_app.base.settings.load import load_settings
from infer_app.base.settings.sections import Settings, rejection_budget

KEYS = [f"{section}.{key}" for section, field in Settings.model_fields.items() for key in field.annotation.model_fields]


def load(config, flags=None, environ=None):
    """Load the settings with these variables and no others of ours."""
    with pytest.MonkeyPatch.context() as variables:
        for name, value in (environ or {}).items():
            variables.setenv(name, value)
        return load_settings(config, flags)


def write(folder: Path, text: str) -> Path:
    path = folder / "infer.toml"
    path.write_text(text)
    return path


def test_flags_beat_variables_beat_the_file(tmp_path):
    config = write(tmp_path, "[run]\nlookback = 1\nworkers = 1\nchunk_size = 1\n")
    environ = {"INFER_RUN__WORKERS": "2", "INFER_RUN__CHUNK_SIZE": "2"}
    loaded = load(config, {"run": {"chunk_size": 3, "model": None}}, environ)
    assert (loaded.run.lookback, loaded.run.workers, loaded.run.chunk_size) == (1, 2, 3)
    origins = [loaded.origins[f"run.{key}"] for key in ("lookback", "workers", "chunk_size")]
    assert origins == ["infer.toml", "environment", "flag"]


def test_paths_are_relative_to_the_file(tmp_path):
    config = write(tmp_path, '[database]\nurl = "sqlite:///my.db"\n[images]\nroots = ["photos"]\n')
    loaded = load(config)
    assert loaded.database_url == f"sqlite:///{tmp_path}/my.db"
    assert loaded.roots == (tmp_path / "photos",)
    assert loaded.models_folder == tmp_path / "models"


@pytest.mark.parametrize("dotted", KEYS)
def test_a_misspelt_setting_is_named_with_the_right_one(tmp_path, dotted):
    section, key = dotted.split(".")
    typo, right, single = key + key[-1], f"INFER_{section}__{key}".upper(), f"INFER_{section}_{key}".upper()
    for text, environ, message, hint in (
        (f"[{section}]\n{typo} = 1\n", {}, f"unknown key {typo!r} in [{section}]", key),
        ("", {f"{right}Z": "1"}, f"unknown variable {right}Z", right),
        ("", {single: "1"}, f"unknown variable {single}", f"did you mean {right}?"),
    ):
        with pytest.raises(UsageError) as caught:
            load(write(tmp_path, text), environ=environ)
        assert message in caught.value.message
        assert hint in caught.value.hint


def kubernetes_variables(service, port):
    """The variables that a pod gets for a service: https://kubernetes.io/docs/concepts/services-networking/service/."""
    prefix, port = (name.upper().replace("-", "_") for name in (service, port))
    names = ["SERVICE_HOST", "SERVICE_PORT", f"SERVICE_PORT_{port}", "PORT", "PORT_5432_TCP"]
    names += [f"PORT_5432_TCP_{part}" for part in ("PROTO", "PORT", "ADDR")]
    return {f"{prefix}_{name}": "tcp://10.0.0.1:5432" for name in names}


SERVICES = ["infer", "infer-db", "infer--db", *(f"infer-{name}" for name in Settings.model_fields)]
NO_SECTIONS = ["INFER_HOME", "INFER_CONFIG", "INFER_NONSENSE", "INFER_", "INFER___X", "INFER_RUN", "INFER_PATH"]


@pytest.mark.parametrize(
    "environ",
    [*({name: "1"} for name in NO_SECTIONS), *(kubernetes_variables(service, "web-ui") for service in SERVICES)],
    ids=min,
)
def test_variables_that_name_no_section_and_those_of_kubernetes_are_ignored(tmp_path, environ):
    config = write(tmp_path, "")
    assert load(config, environ=environ) == load(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run", "Expected"),
        ("workers = 2", "outside a \\[section\\]"),
        ("[rum]\n", "unknown section \\[rum\\]"),
        ("[path]\n", "unknown section \\[path\\]"),
        ("[origins]\n", "unknown section \\[origins\\]"),
        ('path = "x"\n', "outside a \\[section\\]"),
        ('[run]\ntime_zone = "Mars"\n', "unknown time zone"),
        ('[run]\nworkers = "many"\n', "run.workers"),
        ("[run]\nworkers = 999999999999\n", "run.workers: .* 1024"),
        ('[run]\nmax_rejected = "lots"\n', "run.max_rejected"),
        ("[run]\nmax_rejected = -1\n", "it can't be negative"),
        ("[run]\nmax_rejected = true\n", "run.max_rejected"),
        ('[images]\nmap = "/photos"\n', "images.map"),
        ('[images]\nmap = {"/srv/photos" = 1}\n', "images.map"),
        ('[images]\nmap = {"photos" = "/photos"}\n', "'photos' is not an absolute path"),
        ('[images]\nmap = {"/srv" = "/photos/../etc"}\n', "'/photos/../etc' is not an absolute path"),
        ('[images]\nmap = {"/srv" = "/a", "/srv/" = "/b"}\n', "named twice"),
        ('[source]\nbase = "s3://shots/"\n', "it is a folder of this machine"),
    ],
)
def test_a_wrong_file_is_a_usage_error(tmp_path, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        load(write(tmp_path, text))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("in_file", "flags", "environ", "origin"),
    [
        (-1, {}, {}, "infer.toml"),
        (1, {}, {"INFER_RUN__WORKERS": "-1"}, "environment"),
        (1, {"run": {"workers": -1}}, {"INFER_RUN__WORKERS": "1"}, "flag"),
    ],
)
def test_a_wrong_value_is_named_with_where_it_comes_from(tmp_path, in_file, flags, environ, origin):
    with pytest.raises(UsageError, match=f"^{origin}: run.workers: Input should be greater") as caught:
        load(write(tmp_path, f"[run]\nworkers = {in_file}\n"), flags, environ)
    assert "docs/reference/settings.md" in caught.value.hint
    with pytest.raises(UsageError, match="no infer.toml"):
        load(tmp_path / "elsewhere" / "infer.toml", flags, environ)


SECRET_PLACES = """
[database]
url = "postgresql://me:canary@host/db"
results_schema = "ours"
[ping]
url = "https://hc.example/canary"
[webhook]
url = "https://hook.example/canary?key=canary"
[ray.runtime_env.env_vars]
TOKEN = "canary"
"""


def test_no_secret_in_what_is_shown(tmp_path):
    loaded = load(write(tmp_path, SECRET_PLACES))
    shown = {name: value for name, value, _ in loaded.flattened()}
    assert "canary" not in str(shown)
    assert "canary" not in repr(loaded)
    assert (shown["ping.url"], shown["ray.runtime_env"]) == ("https://hc.example/***", {"env_vars": "***"})
    assert loaded.shown_url.endswith("://me:***@host/db?results_schema=ours")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("INFER_PING__URL", "canary.example/x", "ping.url"),
        ("INFER_WEBHOOK__URL", "ftp://canary/x", "webhook.url"),
        ("INFER_WEBHOOK__URL", "http://[canary", "webhook.url"),
        ("INFER_METRICS__TEXTFILE", "canary.txt", "metrics.textfile"),
        *(("INFER_IMAGES__MAP", text, "not of the form /recorded=/local") for text in ("/a", "/a=/b=/c", "/a=/b:")),
        ("INFER_IMAGES__MAP", "/a=/b:/a=/c", "not of the form /recorded=/local"),
        ("INFER_DATABSE__URL", "canary", "unknown variable INFER_DATABSE__URL"),
        ("INFER_RUN__", "canary", "unknown variable INFER_RUN__"),
    ],
)
def test_a_wrong_variable_is_named_without_what_may_be_its_secret(tmp_path, name, value, said):
    with pytest.raises(UsageError, match=said) as caught:
        load(write(tmp_path, ""), environ={name: value})
    assert "canary" not in f"{caught.value.message}{caught.value.hint}"


def test_the_rejection_budget_is_a_share_or_a_number(tmp_path):
    assert rejection_budget("5%", 1000) == 50
    assert rejection_budget("5%", 20) == 10
    assert rejection_budget("0", 1000) == 0
    assert load(write(tmp_path, "[run]\nmax_rejected = 20\n")).run.max_rejected == "20"
    with pytest.raises(ValueError, match="neither a share"):
        rejection_budget("many", 1)


def test_folders_that_lie_elsewhere_are_a_table_or_a_variable(tmp_path):
    config = write(tmp_path, '[images.map]\n"/srv/photos" = "/photos"\n')
    assert load(config).path_map.to_local("/srv/photos/a.jpg") == "/photos/a.jpg"
    loaded = load(config, environ={"INFER_IMAGES__MAP": "/a=/b:/c=/d"})
    assert loaded.images.map == {"/a": "/b", "/c": "/d"}
    assert load(config, environ={"INFER_IMAGES__MAP": ""}).images.map == {}


def test_watched_folders_and_the_base_may_be_read_unless_roots_are_set(tmp_path):
    config = write(tmp_path, '[images]\nwatch = ["photos", "photos/2026", "../more", "photos"]\n')
    loaded = load(config)
    assert loaded.watched == (tmp_path / "photos", tmp_path.parent / "more")
    assert loaded.roots == (tmp_path / "photos", tmp_path / "photos/2026", tmp_path.parent / "more")
    config = write(tmp_path, '[source]\nbase = "shots"\n')
    assert load(config).roots == (tmp_path / "shots",)
    assert load(config, environ={"INFER_IMAGES__ROOTS": "/a"}).roots == (Path("/a"),)
    beside = load(config, environ={"INFER_IMAGES__ROOTS": "../more"}).roots  # it is above locations that lack the `..`
    assert beside == (tmp_path.parent / "more",)
    mapped = load(config, environ={"INFER_IMAGES__MAP": f"{tmp_path}/shots=/shots"})
    assert mapped.roots == (Path("/shots"),)
    assert mapped.path_map.resolved("a/b.jpg") == "/shots/a/b.jpg"


@pytest.mark.parametrize(
    ("text", "read", "message"),
    [
        ('[images]\nwatch = ["~nobody-of-that-name/x"]', "watched", "there is no such user"),
        ('[images]\nroots = ["~nobody-of-that-name/x"]', "roots", "there is no such user"),
        ('[images]\nwatch = ["x"]\n[source]\nquery = "SELECT 1"', "watched", "registers files in our own list"),
        ('[database]\nurl = "canary"', "database_url", "can't be read"),
        ('[database]\nurl = "postgresql://u:first@canary@host/x"', "shown_url", "more than one @"),
        ('[database]\nurl = "mariadb://u:first@canary@host:1/x"', "shown_url", "more than one @"),
    ],
)
def test_a_setting_that_is_wrong_once_it_is_read_is_told_without_its_password(tmp_path, text, read, message):
    loaded = load(write(tmp_path, text))
    with pytest.raises(UsageError, match=message) as caught:
        getattr(loaded, read)
    assert "canary" not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize(
    ("section", "key", "value", "error"),
    [
        ("events", "gap", "soon", "events.gap: 'soon' is no time span such as 60s, 30min or 2h"),
        ("events", "gap", "0s", "greater than 0"),
        ("source", "camera", "folder:0", "folder:1 is the first folder of a location"),
        ("source", "taken_in_name", "%Y%m%d", "needs year, month, day, hour and minute"),
        ("source", "taken_in_name", "%Y%m%d_%H%M_%Y", "each once"),
        ("source", "taken_in_name", "%Y%m%d_%H%M%", "each once"),
    ],
)
def test_how_cameras_and_events_are_told_is_checked(tmp_path, section, key, value, error):
    (tmp_path / "infer.toml").write_text(f"[{section}]\n{key} = {value!r}\n")
    with pytest.raises(UsageError, match=re.escape(error)):
        load_settings(tmp_path / "infer.toml")


def test_a_gap_is_a_number_of_seconds_or_a_time_span(tmp_path):
    for text, seconds in (("'90s'", 90), ("'30 min'", 1800), ("'1.5h'", 5400), ("60", 60)):
        (tmp_path / "infer.toml").write_text(f"[events]\ngap = {text}\n")
        assert load_settings(tmp_path / "infer.toml").events.gap == seconds
