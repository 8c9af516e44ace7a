"""Settings and lists as other systems' editors save them are read, or refused by what they are."""

import codecs

from tests.support.networks import ChannelMeans, save

SETTINGS = '[run]\nlookback = 2  # Tage für die Nacht\n[images]\nroots = ["photos"]\n'
READ = {
    "byte order mark": codecs.BOM_UTF8 + SETTINGS.encode(), "UTF-16": SETTINGS.encode("utf-16"),
    "big-endian": codecs.BOM_UTF16_BE + SETTINGS.encode("utf-16-be"), "CRLF": SETTINGS.replace("\n", "\r\n").encode(),
    "CR": SETTINGS.replace("\n", "\r").encode(), "trailing spaces": SETTINGS.replace("\n", " \t\n").encode(),
}  # fmt: skip
REFUSED = {
    "not UTF-8": SETTINGS.encode("latin-1"), "non-breaking spaces": SETTINGS.replace(" = ", "\xa0= ").encode(),
    "nested brackets": b"a = " + b"[" * 5000 + b"]" * 5000, "not between 0 and 100%": b'[run]\nmax_rejected = "-3%"',
    "max_rejected": b'[run]\nmax_rejected = "nan%"', "can't be negative": b"[run]\nmax_rejected = -1",
    "lookback": b"[run]\nlookback = -1",
}  # fmt: skip
TIMES = ("inf", "nan", "0", "-1", "1e300")


def test_settings_of_any_editor_are_read_or_refused_by_what_they_are(project):
    config = project.folder / "infer.toml"
    for kind, data in READ.items():
        config.write_bytes(data)
        shown = project.infer_json("config", "show")
        assert shown["run.lookback"]["value"] == 2, kind
    config.write_bytes(READ["UTF-16"])
    project.add_photos(1)  # adds its folder to the settings
    refused = REFUSED | {f"timeout_s-{one}": f"[images]\ntimeout_s = {one}".encode() for one in TIMES}
    for why, data in refused.items():
        config.write_bytes(data)
        project.infer("config", "show", exit_code=2)
        assert why.partition("-")[0].split(" ")[0] in project.errors, why
        assert "a bug" not in project.errors


def test_a_name_that_is_too_long_is_refused_at_the_build(project):
    save(ChannelMeans(), project.folder / "colors.ts")
    for length in (129, 256, 5000):
        project.infer("model", "build", "colors.ts", "--name", "m" * length, exit_code=2)
        assert "128 letters" in project.errors
