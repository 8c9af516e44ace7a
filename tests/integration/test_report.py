"""The report through the real commands, in a real browser where one is installed, and under files that do harm."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest

from infer_app.ask.day_report import CameraOfDay, DaySummary, IllCamera
from infer_app.ask.page import thumbnails
from infer_app.ask.page.index_rows import IndexRow
from infer_app.ask.page.page import render_index
from infer_app.ask.page.thumbnails import ThumbnailLimits, make_thumbnails, thumbnails_of
from infer_app.base.domain import DetectedObject
from infer_app.base.read_limits import ReadLimits
from tests.support.detections import write_detections
from tests.support.photos import jpeg
from tests.support.projects import DATE
from tests.support.web_server import web_server

pytestmark = pytest.mark.slow

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
PAGE = f"reports/{DATE}.html"


@pytest.mark.always
def test_a_run_ends_in_its_report(project):
    project.add_photos(9)
    (project.photos / "cut.jpg").write_bytes(jpeg()[:300])
    project.add("photos")
    project.infer("run", "--date", DATE, "--report")
    page = (project.folder / PAGE).read_text()
    assert page.count("data:image/jpeg;base64,") == 9
    data = json.loads((project.folder / PAGE).with_suffix(".json").read_text())
    (model,) = data["models"]
    assert model["counts"] == {"eligible": 10, "predicted": 9, "rejected": 1, "pending": 0}
    assert (model["reasons"], sum(model["scores"]["counts"])) == ({"truncated": 1}, 9)
    assert {one["label"]: one["count"] for one in model["labels"]["most"]} == {"red": 3, "green": 3, "blue": 3}
    assert f'href="./{DATE}.html"' in (project.folder / "reports/index.html").read_text()


def test_of_a_card_that_came_late_the_day_has_a_page_and_its_broken_photo_is_listed(project):
    project.add_photos(2)
    project.infer("run", "--date", DATE, "--report")
    night = "2026-11-21 02:30:00"
    project.write("UPDATE infer_runs SET started_at = ?, heartbeat_at = ?, ended_at = ?", night, night, night)
    card = project.folder / "card"
    card.mkdir()
    (card / "good.jpg").write_bytes(jpeg())
    (card / "cut.jpg").write_bytes(jpeg()[:300])
    project.add("card", date="2026-11-18")
    project.infer("run", "--date", DATE, "--report")
    assert {file.stem for file in (project.folder / "reports").glob("*.html")} == {DATE, "2026-11-18", "index"}
    (rejected,) = project.list_images("rejected")
    assert (Path(rejected["location"]).name, rejected["date"]) == ("cut.jpg", "2026-11-18")
    assert len(project.list_images("predicted")) == 1
    project.write("UPDATE infer_runs SET state = 'failed', selected = 0, exit_code = 14 WHERE day = '2026-11-18'")
    assert "the last run of 2026-11-18 ended with exit code 14" in project.infer("list", "--state", "rejected")


def test_a_report_of_any_days_and_a_page_of_all(project):
    project.add_photos(3)
    project.infer("run", "--date", DATE)
    before = (project.folder / "infer.db").read_bytes()
    (told,) = project.infer_json("report", "--date", DATE)["reports"]
    assert told["file"] == str(project.folder / PAGE)
    assert told["models"][0]["verdict"].startswith("20 Nov: 3 = 3 predicted + 0 rejected + 0 pending")
    project.infer("report", "--date", DATE, "--out", "here.html")
    assert (project.folder / "here.json").is_file()
    refused = project.infer_json("report", "--date", DATE, "--out", "/proc/x.html", exit_code=2)
    assert "--out" in refused["hint"]
    several = project.infer_json("report", "--date", "2026-11-18", "--until", "2026-11-22")["reports"]
    assert [one["date"] for one in several] == [DATE]
    assert f'href="./{DATE}.html"' in (project.folder / "reports/index.html").read_text()
    assert (project.folder / "infer.db").read_bytes() == before


@pytest.fixture
def browse(tmp_path):
    """browse(page) is the page as Chromium has it once it is loaded, and what it told on its console."""

    def load(page):
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
        command += ["--no-first-run", "--disable-background-networking"]
        command += [f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=os.environ)
        return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]

    return load


@pytest.fixture
def measure(tmp_path, browse):
    """measure(page, width, …) is what a script finds in a page that is shown so wide."""

    def load(page, width, script):
        frame = tmp_path / "measured.html"
        frame.write_text(FRAME.format(page=html.escape(page), width=width, script=script))
        dom, _ = browse(frame)
        return json.loads(re.search("<title>(.*)</title>", dom)[1])

    return load


@pytest.fixture
def server():
    """A web server on this machine, which a page that fetches would ask."""
    with web_server() as server:
        yield server


@needs_browser
def test_in_a_browser_the_page_fetches_nothing_runs_nothing_and_has_no_error(project, server, browse, tmp_path):
    """One that fetches, or that its policy keeps from it, would be seen: such pages are tried first."""
    careless, strict = tmp_path / "careless.html", tmp_path / "strict.html"
    careless.write_text(f"<title>x</title><img src='{server.url}/fetched'>")
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    strict.write_text(f"{policy}<title>x</title><img src='{server.url}/blocked'><script>1</script>")
    browse(careless)
    assert (len(browse(strict)[1]), [*server.hits]) == (2, ["/fetched"])
    address = server.url.replace("/", "&#47;")
    names = [
        f'"><img src=%2f%2f onerror=fetch`x`><img src="{address}&#47;name">.jpg',
        "<script>document.title='owned'<&#47;script>.jpg",
        "\u202egpj.exe.jpg",
        "two\nlines.jpg",
    ]
    project.add_photos(3)
    for name in names:
        (project.photos / name).write_bytes(jpeg())
    (project.photos / "<svg onload=alert(1)>.jpg").write_bytes(jpeg()[:300])
    project.add("photos")
    project.infer("run", "--date", DATE, "--report", "--max-rejected", "100")
    with_link = f"<script src='{server.url}/label'></script><img src='{server.url}/label'>"
    project.write("UPDATE infer_predictions SET label = ?", with_link)
    project.write("UPDATE infer_rejections SET detail = ?", with_link)
    project.infer("report", "--date", DATE)
    dom, console = browse(project.folder / PAGE)
    assert f"<title>{DATE}</title>" in dom
    assert dom.count('src="data:image/jpeg') == 7
    assert "<script" not in dom
    assert (console, [*server.hits]) == ([], ["/fetched"])


def found(label, score, x=0.1, y=0.2, width=0.5, height=0.6):
    return DetectedObject(label, 0, score, x, y, width, height)


@needs_browser
@pytest.mark.parametrize("width", [1100, 390])
def test_boxes_and_hostile_labels_in_a_browser(project, server, browse, measure, width):
    """The page fits its width, each overlay lies exactly over its picture, and a label is text."""
    project.add_photos(6)
    hostile = f"<script src='{server.url}/label'></script><img src='{server.url}/label' onerror=alert(1)>"
    crowd = [found(hostile, 0.9 - n / 100, n / 40, 0.5, 0.1, 0.4) for n in range(30)]
    write_detections(
        project, {f"{n:04}.jpg": crowd for n in range(4)} | {"0004.jpg": [], "0005.jpg": [found("a", 0.2)]}
    )
    project.infer("report", "--date", DATE)
    page = project.folder / PAGE
    dom, console = browse(page)
    assert (dom.count("<script"), dom.count('class="boxes"'), console) == (0, 5, [])
    assert measure(page.read_text(), width, OVERLAYS) == [width, width, 5, 5]
    assert [*server.hits] == []


def harmed(locations, limits):
    names = " ".join(locations)
    if "killer" in names:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hanger" in names:
        time.sleep(1000)
    return thumbnails_of(locations, limits)


@pytest.mark.timeout(300)
def test_a_file_that_kills_or_hangs_its_process_costs_its_thumbnail_alone(tmp_path, monkeypatch):
    for name in ("0.jpg", "1.jpg", "hanger.jpg", "killer.jpg", "x.jpg", "y.jpg"):
        (tmp_path / name).write_bytes(jpeg())
    locations = sorted(map(str, tmp_path.iterdir()))
    limits = ThumbnailLimits(
        ReadLimits((tmp_path,), 10**6), 10**6, 10.0, all_timeout_s=200.0
    )  # one more process takes a second
    assert make_thumbnails(locations[:1], replace(limits, all_timeout_s=0.0)) == {}  # the report goes on without
    make_thumbnails(locations[:1], limits)  # the fork server is up from here on
    monkeypatch.setattr(thumbnails, "thumbnails_of", harmed)
    made = make_thumbnails(locations, limits)
    assert {Path(one).name for one in made} == {"0.jpg", "1.jpg", "x.jpg", "y.jpg"}


FRAME = """<title></title><iframe srcdoc="{page}" style="border: 0" width="{width}" height="20000"></iframe><script>
onload = () => {{
  const {{document: page, innerWidth}} = frames[0];
  {script}
  document.title = JSON.stringify([innerWidth, page.documentElement.scrollWidth, ...measured]);
}};
</script>"""
OVERLAYS = """
  const place = one => JSON.stringify(one.getBoundingClientRect());
  const is_exact = one => [one.parentNode, one.previousSibling].every(other => place(other) === place(one));
  const overlays = [...page.querySelectorAll(".boxes")];
  const measured = [overlays.length, overlays.filter(is_exact).length];
"""


@needs_browser
@pytest.mark.parametrize("width", [1100, 700, 390])
def test_the_page_of_all_days_fits_its_width(measure, width):
    names = ("efficientnet-lite0", "tf_efficientnetv2_s.in21k_ft_in1k", "a" * 128)
    notes = tuple(f"{name}: too many rejected: exit code 3" for name in names)
    days = [DaySummary(date(2026, 11, day), "attention", notes, 123_456, 456, 0) for day in range(20, 1, -1)]
    at, labels = datetime(2026, 11, 21), {name: {name: 12_345, "fox": 3} for name in names}
    cameras = tuple(CameraOfDay(name, 123_456, 456, 12_345, labels) for name in names)
    ill = tuple(IllCamera(name, "dark camera", date(2026, 11, 3), names[-1], None, None) for name in names)
    rows = [IndexRow(day, f"{day.date}.html", at, num_events=12_345, cameras=cameras, ill=ill) for day in days]
    page = render_index(rows, at)
    assert measure(page, width, "const measured = [];") == [width, width]


def test_a_page_is_written_anew_once_its_day_was_run_again(project):
    project.add_photos(2, "2026-11-19")
    project.infer("run", "--date", "2026-11-19", "--report")
    project.add_photos(3, "2026-11-19")
    project.infer("run", "--date", DATE, "--report")
    pages = [json.loads((project.folder / f"reports/{day}.json").read_text()) for day in ("2026-11-19", DATE)]
    assert [page["images"] for page in pages] == [3, 0]
    before = pages[0]["made_at"]
    project.infer("run", "--date", DATE, "--report")
    assert json.loads((project.folder / "reports/2026-11-19.json").read_text())["made_at"] == before
