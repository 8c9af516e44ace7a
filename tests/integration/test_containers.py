"""docker/: the compose file by the specification's parser, what it sets by `infer`; the image itself is for try.sh."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image
from sqlalchemy import create_engine, make_url, text

from infer_app.base.settings.load import load_settings
from tests.databases.servers import NoServer, postgres

DOCKER = Path(__file__).parents[2] / "docker"
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


# What a user starts from.
ENV_EXAMPLE = dict(re.findall(r"^(\w+)=(.*)$", (DOCKER / "env.example").read_text(), re.MULTILINE))
TEXT = (DOCKER / "compose.yaml").read_text()
SET = ENV_EXAMPLE | {"POSTGRES_PASSWORD": "secret"}
# As compose itself reads it: variables put in, merged.
COMPOSE = yaml.safe_load(VARIABLE.sub(lambda found: SET.get(found[1]) or found[3] or "", TEXT))
SERVICES = {name: service for name, service in COMPOSE["services"].items() if name != "database"}


def test_the_compose_file_is_one():
    """By a parser that refuses unknown keys and wrong values, as the specification does."""
    parser = pytest.importorskip("compose_spec")
    parsed = parser.PyCompose.from_json(json.dumps(COMPOSE))
    assert parsed.service_names() == ["database", "upgrade", "nightly", "infer"]


def test_every_variable_is_explained_and_the_needed_ones_are_asked_for():
    text = re.sub(r"(^|\s)#.*", "", TEXT)
    used = {name: (kind, rest) for name, kind, rest in VARIABLE.findall(text)}
    assert used.keys() == ENV_EXAMPLE.keys()
    needed = {name for name, (kind, _) in used.items() if kind == "?"}
    assert needed == {"POSTGRES_PASSWORD", "PROJECT", "PHOTOS"}


def test_what_compose_sets_are_settings(tmp_path, monkeypatch):
    (tmp_path / "infer.toml").touch()
    for service in SERVICES.values():
        with monkeypatch.context() as variables:
            for name in service["environment"].keys() - {"PGPASSWORD"}:
                variables.setenv(name, service["environment"][name])
            loaded = load_settings(tmp_path / "infer.toml")
        assert loaded.path_map.to_local("/srv/photos/a.jpg") == "/photos/a.jpg"
        assert loaded.shown_url == "postgresql://infer@database/infer"


def test_the_password_stands_in_no_url_and_in_no_file_of_ours():
    assert ENV_EXAMPLE["POSTGRES_PASSWORD"] == ""
    for service in SERVICES.values():
        holders = [name for name, value in service["environment"].items() if "secret" in value]
        assert holders == ["PGPASSWORD"]


def test_containers_have_no_more_rights_than_they_need():
    for service in SERVICES.values():
        assert (service["read_only"], service["init"], service["cap_drop"]) == (True, True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "10001:10001"
        assert int(service["stop_grace_period"].removesuffix("s")) > 25
        (photos,) = [volume for volume in service["volumes"] if volume["target"] == "/photos"]
        assert photos["read_only"]


def test_tables_are_there_before_the_first_night():
    assert SERVICES["nightly"]["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert SERVICES["upgrade"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert "restart" not in SERVICES["upgrade"]


def test_snooze_takes_the_hour():
    if shutil.which("snooze") is None:
        pytest.skip("needs snooze: apt-get install snooze")
    snooze, *arguments, infer = SERVICES["nightly"]["entrypoint"]
    assert (snooze, infer) == ("snooze", "infer")
    told = subprocess.run([snooze, "-n", *arguments], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0].split("T")[1][:8] for line in told.splitlines()] == ["02:30:00"] * 5


@pytest.fixture
def database():
    """Socket folder of a PostgreSQL that has what the compose file's service makes: role and database, by password."""
    try:
        with postgres() as server:
            folder = Path(make_url(server.url).query["host"])
            engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(text("CREATE ROLE infer LOGIN PASSWORD 'secret'"))
                connection.execute(text("CREATE DATABASE infer OWNER infer"))
                (folder / "data" / "pg_hba.conf").write_text("local all all scram-sha-256\n")
                connection.execute(text("SELECT pg_reload_conf()"))
            engine.dispose()
            yield folder
    except NoServer as none:
        pytest.skip(str(none))


@pytest.mark.slow
def test_the_first_day_and_its_night(project, database):
    """In the order of docker/README.md, with the variables of the compose file."""
    (project.folder / "infer.toml").unlink()
    project.forget_database()
    for i in range(2):
        Image.new("RGB", (40, 30), (220, 30, 30 + i)).save(project.photos / f"{i}.jpg")
    here = {
        "INFER_DATABASE__URL": f"postgresql://infer@/infer?host={database}",
        "INFER_IMAGES__ROOTS": str(project.photos),
        "INFER_IMAGES__MAP": f"/srv/photos={project.photos}",
    }
    environ = SERVICES["nightly"]["environment"] | here
    project.infer("init", **environ)
    project.infer("db", "upgrade", exit_code=10, **environ | {"PGPASSWORD": "wrong"})
    assert "password authentication failed" in project.errors
    project.infer(*SERVICES["upgrade"]["command"], **environ)
    assert "2 images added" in project.infer("images", "add", "photos", "--date", "yesterday", **environ)
    assert "2 predicted" in project.infer(*SERVICES["nightly"]["command"], **environ)
    assert "/srv/photos/0.jpg" in project.infer("list", "--state", "predicted", "--json", **environ)


@pytest.mark.parametrize("tool", ["mmdebstrap", "buildah", "umoci", "runc"])
def test_the_trial_of_the_image_is_skipped_where_a_tool_is_missing(tmp_path, tool):
    for name in {"dirname", "mmdebstrap", "buildah", "umoci", "runc"} - {tool}:
        (tmp_path / name).symlink_to(shutil.which("dirname"))
    command = ["/bin/bash", DOCKER / "try.sh"]
    trial = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert trial.stdout.startswith(f"skipped: {tool} is missing")


def test_the_image_has_the_torch_that_make_installs():
    versions = {
        re.search(r"(?:torch==|TORCH=)([0-9.]+[0-9])", (DOCKER.parent / name).read_text())[1]
        for name in ("Makefile", "docker/Dockerfile", "docker/Dockerfile.gpu", "docs/how-to/install.md")
    }
    assert len(versions) == 1
