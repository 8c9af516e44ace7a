"""The report through the real commands, in a real browser where one is installed, and under files that do harm."""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from infer_app.domain import DetectedObject
from infer_app.images.read.local_files import ReadLimits
from infer_app.reporting import thumbnails
from infer_app.reporting.page import IndexRow, render_index
from infer_app.reporting.thumbnails import ThumbnailLimits, make_thumbnails, thumbnails_of
from infer_app.run_report import DayCounts
from tests.support.detections import write_detections
from tests.support.photos import jpeg
from tests.support.projects import DATE

pytestmark = pytest.mark.slow

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
PAGE = f"reports/{DATE}-colors.html"


@pytest.mark.always
def test_a_run_ends_in_its_report(project):
    project.add_photos(9)
    (project.photos / "cut.jpg").write_bytes(jpeg()[:300])
    project.add("photos")
    project.infer("run", "--date", DATE, "--report", "--trace", "run.trace")
    page = (project.folder / PAGE).read_text()
    assert "10 = 9 predicted + 1 rejected + 0 pending" in page
    assert "worker 1" in page
    assert page.count("data:image/jpeg;base64,") > 9
    data = json.loads((project.folder / PAGE).with_suffix(".json").read_text())
    assert data["counts"] == {"eligible": 10, "predicted": 9, "rejected": 1, "pending": 0}
    assert data["reasons"] == {"truncated": 1}
    assert {one["label"]: one["count"] for one in data["labels"]["most"]} == {"red": 3, "green": 3, "blue": 3}
    assert sum(data["scores"]["counts"]) == 9
    assert data["run"]["variant"] == "cpu-torchscript"


def test_a_report_of_any_day_and_an_overview(project):
    project.add_photos(3)
    project.infer("run", "--date", DATE)
    before = (project.folder / "infer.db").read_bytes()
    (told,) = project.infer_json("report", "--date", DATE)["reports"]
    assert told["file"] == str(project.folder / PAGE)
    assert told["verdict"].startswith("20 Nov: 3 = 3 predicted + 0 rejected + 0 pending")
    project.infer("report", "--date", DATE, "--model", "colors", "--out", "here.html")
    assert (project.folder / "here.json").is_file()
    assert project.infer_json("report", "--index")["days"] == 1
    assert f'href="./{DATE}-colors.html"' in (project.folder / "reports/index.html").read_text()
    assert (project.folder / "infer.db").read_bytes() == before


def test_a_report_without_a_run_is_refused(project):
    project.add("photos")
    assert project.infer_json("report", "--date", DATE, exit_code=2)["hint"] == "`infer run` first"
    project.add_photos(1)
    project.infer("run", "--date", DATE)
    assert "colors" in project.infer_json("report", "--model", "cars", exit_code=2)["hint"]
    assert "--out" in project.infer_json("report", "--date", DATE, "--out", "/proc/x.html", exit_code=2)["hint"]
    assert "trace" in project.infer_json("report", "--date", DATE, "--trace", "infer.toml", exit_code=2)["error"]


def test_fifty_thousand_objects_a_day_take_seconds_and_no_more_page(project):
    """Ten thousand images with five objects each, and as many on each of the three days before."""
    project.add_photos(3)
    write_detections(project, {"0000.jpg": [found("label 1", 0.9)], "0001.jpg": [], "0002.jpg": []})
    numbers = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 40099)"
    project.write(
        f"{numbers} INSERT INTO infer_images (id, location, added_at)"
        " SELECT i, '/p/' || i, date(?, '-' || (i % 4) || ' days') || ' 12:00:00.000000' FROM n",
        DATE,
    )
    project.write(
        "INSERT INTO infer_predictions (image_id, model_id, run_id, variant, label, score, output, created_at,"
        " width, height, num_objects) SELECT CAST(i.id AS TEXT), p.model_id, p.run_id, p.variant, 'label 0', 0.99,"
        " '{}', p.created_at, 640, 480, 5 FROM infer_images i, infer_predictions p"
        " WHERE i.id >= 100 AND p.image_id = '1'"
    )
    project.write(
        "INSERT INTO infer_objects SELECT i.image_id, i.model_id, o.value, 'label ' || ((i.rowid + o.value) % 90), 0,"
        " (i.rowid * 7 % 100) / 100.0 / (o.value + 1), 0.1, 0.1, 0.5, 0.5"
        " FROM infer_predictions i, json_each('[0, 1, 2, 3, 4]') o WHERE CAST(i.image_id AS INTEGER) >= 100"
    )
    project.write("INSERT INTO infer_thresholds (model, label, threshold) VALUES ('animals', '', 0.1)")
    started = time.monotonic()
    project.infer("report", "--date", DATE, "--model", "animals")
    assert time.monotonic() - started < 30  # two on a quiet machine
    page = project.folder / f"reports/{DATE}-animals.html"
    assert page.stat().st_size < 200_000
    data = json.loads(page.with_suffix(".json").read_text())
    counts = data["objects"]["counts"]
    assert (counts["num_images"], counts["num_stored"]) == (10_003, 50_001)
    assert counts["num_objects"] == sum(data["scores"]["counts"]) == sum(one["count"] for one in data["labels"]["most"])
    assert data["objects"]["counts_7"]["num_images"] == 30_000


class Visits(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self):
        self.seen.append(self.path)
        self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def visits():
    """A web server on this machine, and what was asked of it."""
    handler = type("Handler", (Visits,), {"seen": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", handler.seen
    server.shutdown()
    server.server_close()


def browse(page, folder):
    """The page as Chromium has it once it is loaded, and what it told on its console."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=os.environ)
    return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
def test_in_a_browser_the_page_fetches_nothing_runs_nothing_and_has_no_error(project, visits, tmp_path):
    host, seen = visits
    names = [
        f'"><img src=%2f%2f onerror=fetch`x`><img src="http:&#47;&#47;{host}&#47;name">.jpg',
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
    with_link = f"<script src='http://{host}/label'></script><img src='http://{host}/label'>"
    project.write("UPDATE infer_predictions SET label = ?", with_link)
    project.write("UPDATE infer_rejections SET detail = ?", with_link)
    project.infer("report", "--date", DATE)
    dom, console = browse(project.folder / PAGE, tmp_path / "profile")
    assert "8 = 7 predicted + 1 rejected + 0 pending" in dom
    assert f"<title>{DATE} · colors</title>" in dom
    assert dom.count('src="data:image/jpeg') >= 8
    assert "<script" not in dom
    assert console == []
    assert seen == []


def found(label, score, x=0.1, y=0.2, width=0.5, height=0.6):
    return DetectedObject(label, 0, score, x, y, width, height)


@needs_browser
@pytest.mark.parametrize("width", [1100, 390])
def test_boxes_and_hostile_labels_in_a_browser(project, visits, tmp_path, width):
    """The page fits its width, each overlay lies exactly over its picture, and a label is text."""
    host, seen = visits
    project.add_photos(6)
    hostile = f"<script src='http://{host}/label'></script><img src='http://{host}/label' onerror=alert(1)>"
    crowd = [found(hostile, 0.9 - n / 100, n / 40, 0.5, 0.1, 0.4) for n in range(30)]
    write_detections(
        project, {f"{n:04}.jpg": crowd for n in range(4)} | {"0004.jpg": [], "0005.jpg": [found("a", 0.2)]}
    )
    project.infer("report", "--date", DATE, "--model", "animals")
    page = project.folder / f"reports/{DATE}-animals.html"
    dom, console = browse(page, tmp_path / "profile")
    assert dom.count("<script") == 0
    assert dom.count('class="boxes"') == 5 * 3
    assert console == []
    measured = tmp_path / "measured.html"
    measured.write_text(MEASURE_BOXES.format(page=html.escape(page.read_text()), width=width))
    dom, _ = browse(measured, tmp_path / "profile")
    assert json.loads(re.search("<title>(.*)</title>", dom)[1]) == [width, width, 15, 15]
    assert seen == []


@needs_browser
def test_a_browser_would_have_told(visits, tmp_path):
    """What the test above relies on: a page that fetches is seen to, and one whose policy forbids it complains."""
    host, seen = visits
    careless, strict = tmp_path / "careless.html", tmp_path / "strict.html"
    careless.write_text(f"<title>x</title><img src='http://{host}/fetched'>")
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    strict.write_text(f"{policy}<title>x</title><img src='http://{host}/blocked'><script>1</script>")
    browse(careless, tmp_path / "profile")
    _, console = browse(strict, tmp_path / "profile")
    assert seen == ["/fetched"]
    assert len(console) == 2


def save(path, data):
    path.write_bytes(data)
    return str(path)


def killing(locations, limits):
    if any("killer" in location for location in locations):
        os.kill(os.getpid(), signal.SIGSEGV)
    return thumbnails_of(locations, limits)


def hanging(locations, limits):
    if any("hanger" in location for location in locations):
        time.sleep(1000)
    return thumbnails_of(locations, limits)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("harm", "timeout_s"), [(killing, 60.0), (hanging, 10.0)])  # one more process takes a second
def test_a_file_that_kills_or_hangs_its_process_costs_its_thumbnail_alone(tmp_path, monkeypatch, harm, timeout_s):
    good = [save(tmp_path / f"{n}.jpg", jpeg()) for n in range(4)]
    bad = [save(tmp_path / name, jpeg()) for name in ("killer.jpg", "hanger.jpg")]
    limits = ThumbnailLimits(ReadLimits((tmp_path,), 10**6), 10**6, timeout_s, all_timeout_s=200.0)
    make_thumbnails(good, limits)  # the fork server is up from here on
    monkeypatch.setattr(thumbnails, "thumbnails_of", harm)
    made = make_thumbnails([*good[:2], *bad, *good[2:]], limits)
    assert set(good) <= set(made)
    assert len(made) == 5


def test_when_the_time_is_over_a_report_goes_on_without_pictures(tmp_path):
    location = save(tmp_path / "a.jpg", jpeg())
    assert make_thumbnails([location], ThumbnailLimits(ReadLimits((tmp_path,), 10**6), 10**6, all_timeout_s=0.0)) == {}


MEASURE = """<title></title><iframe srcdoc="{page}" style="border: 0" width="{width}" height="3000"></iframe><script>
onload = () => {{
  const {{document: page, innerWidth}} = frames[0];
  const lines = cell => {{
    const text = page.createRange();
    text.selectNodeContents(cell);
    return new Set([...text.getClientRects()].map(line => line.top)).size;
  }};
  const names = [...page.querySelectorAll("td:nth-child(2)")].map(lines);
  document.title = JSON.stringify([innerWidth, page.documentElement.scrollWidth, ...names]);
}};
</script>"""


MEASURE_BOXES = """<title></title><iframe srcdoc="{page}" style="border: 0" width="{width}" height="9000"></iframe>
<script>
onload = () => {{
  const {{document: page, innerWidth}} = frames[0];
  const place = one => JSON.stringify(one.getBoundingClientRect());
  const is_exact = one => [one.parentNode, one.previousSibling].every(other => place(other) === place(one));
  const overlays = [...page.querySelectorAll(".boxes")];
  const exact = overlays.filter(is_exact);
  document.title = JSON.stringify([innerWidth, page.documentElement.scrollWidth, overlays.length, exact.length]);
}};
</script>"""


@needs_browser
@pytest.mark.parametrize("width", [1100, 1061, 920, 700, 390])
def test_a_model_name_in_the_overview_is_not_broken_and_nothing_is_cut_off(tmp_path, width):
    told = (DayCounts(123_456, 123_000, 456, 0), "attention", "too many rejected: exit code 3", "a.html")
    names = ("efficientnet-lite0", "tf_efficientnetv2_s.in21k_ft_in1k", "a" * 128)
    rows = [IndexRow(date(2026, 11, 20), name, *told) for name in names]
    page = tmp_path / "page.html"
    page.write_text(MEASURE.format(page=html.escape(render_index(rows, "now")), width=width))
    dom, _ = browse(page, tmp_path / "profile")
    assert json.loads(re.search("<title>(.*)</title>", dom)[1])[:4] == [width, width, 1, 1]
