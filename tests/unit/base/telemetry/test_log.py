import io
import json
import logging
import warnings

import pytest

from infer_app.base.telemetry.log import bind_models, bound, log_to_stderr, logs_json, names_and_ids

log = logging.getLogger("infer_app.somewhere")


pytestmark = pytest.mark.usefixtures("logging_as_it_was")


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_json_line_has_the_context_and_the_figures_and_no_fields_of_other_programs(capsys):
    """A record factory, as Ray installs one, and the formatter of another handler add attributes to every record."""
    before = logging.getLogRecordFactory()

    def make_stamped_record(*args, **kwargs):
        record = before(*args, **kwargs)
        record._stamp_ns = 1
        return record

    other = logging.StreamHandler(io.StringIO())
    other.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.setLogRecordFactory(make_stamped_record)
    logging.getLogger().addHandler(other)  # before ours: it sees the record first
    try:
        log_to_stderr("text")
        log_to_stderr("json")  # in place of the first: one line is written still
        with bound(run_id="r", date="2026-11-20"):
            log.info("%s done", "5", extra={"done": 5, "chunk": 3})
    finally:
        logging.getLogger().removeHandler(other)
        logging.setLogRecordFactory(before)
    (line,) = map(json.loads, lines(capsys))
    assert line.pop("timestamp").endswith("Z")
    own = {"level": "info", "event": "5 done", "logger": "infer_app.somewhere", "done": 5, "chunk": 3}
    assert line == own | {"run_id": "r", "date": "2026-11-20"}
    assert logs_json()


def test_what_is_bound_within_a_block_stays_and_extra_values_replace_nothing_of_a_line(capsys):
    log_to_stderr("json")
    with bound(run_id="r", model="a"):
        bind_models([("cats", "0123456789abcdef")])
        with bound(run_id="s"):
            log.info("in")
    log.warning("out", extra={"level": "mine", "event": "other", "done": {1}})
    first, second = map(json.loads, lines(capsys))
    assert (first["run_id"], first["model"]) == ("s", "cats")
    assert (second["level"], second["event"], second["done"]) == ("warning", "out", "{1}")
    assert (second["model_id"], "run_id" in second, "model" in second) == ("0123456789abcdef", False, False)


def test_for_people_a_line_is_the_text_alone(capsys):
    log_to_stderr()
    with bound(run_id="r", date="2026-11-20"):
        log.info("5 done", extra={"done": 5, "models": [{"a": 1}]})
    (line,) = lines(capsys)
    assert line[20:].split() == ["[info]", "5", "done"]
    assert not logs_json()


def test_a_line_names_the_version_of_its_model(capsys):
    log_to_stderr()
    bind_models([("cats", "0123456789abcdef"), ("dogs", "fedcba9876543210")])
    log.info("begins")
    log.info("one", extra=names_and_ids([("cats", "0123456789abcdef")]))
    assert [line[20:].split(maxsplit=1)[1] for line in lines(capsys)] == [
        "begins model='cats@01234567, dogs@fedcba98'",
        "one model=cats@01234567",
    ]
    log_to_stderr("json")
    log.info("begins")
    (line,) = map(json.loads, lines(capsys))
    assert (line["model"], line["model_id"]) == ("cats, dogs", "0123456789abcdef, fedcba9876543210")


@pytest.mark.parametrize(
    ("loudness", "heard"), [({}, ["i", "w"]), ({"quiet": True}, ["w"]), ({"verbose": True}, ["d", "i", "w"])], ids=str
)
def test_how_much_is_said(capsys, loudness, heard):
    log_to_stderr("json", **loudness)
    log.debug("d")
    log.info("i")
    log.warning("w")
    logging.getLogger("library").info("never")
    assert [json.loads(line)["event"] for line in lines(capsys)] == heard


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_name_of_a_file_ends_a_line_or_reaches_the_terminal_and_no_traceback_shows_a_variable(capsys, style):
    log_to_stderr(style)
    log.warning("bad: %s", "a\nb\x1b[31m", extra={"model": "x\x1b]0;y\nz"})
    (line,) = lines(capsys)
    assert "\x1b" not in line
    password = "".join(["can", "ary"])
    try:
        raise KeyError(len(password))
    except KeyError:
        log.warning("no report", exc_info=True)
    told = "\n".join(lines(capsys))
    assert "Traceback (most recent call last)" in told
    assert "KeyError: 6" in told
    assert "canary" not in told


def test_warnings_of_libraries_are_lines_too(capsys):
    log_to_stderr("json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    (line,) = map(json.loads, lines(capsys))
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")
    assert "DeprecationWarning: old" in line["event"]
