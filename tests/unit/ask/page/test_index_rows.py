import html
import json
import re
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import text

from infer_app.ask.day_report import CameraOfDay, DaySummary, IllCamera, gather
from infer_app.ask.page.index_rows import NUM_CAMERA_DAYS, IndexRow, gather_cameras
from infer_app.ask.page.page import NUM_ILL_CAMERAS, NUM_LABELS, render_index
from infer_app.base.domain import Broken, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.tables.day.facts import DayReader
from infer_app.tables.day.illness import SILENT
from tests.conftest import DAY, MODEL
from tests.support.results import commit, register_rows
from tests.unit.ask.page.test_page import HOSTILE, Outline, check_harmless

AT = datetime(2026, 11, 21, tzinfo=UTC)
DATES = [DAY.date - timedelta(days=ago) for ago in range(70)]


def tables_of(page):
    """Return the cells of each table of a page, by rows: the attributes of the tag and the text."""
    cell = re.compile(r"<t[hd]([^>]*)>(.*?)</t[hd]>", re.DOTALL)
    tables = (re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL) for found in re.findall(r"(?s)<table.*?</table>", page))
    return [
        [
            [(named, html.unescape(re.sub("<[^>]+>", "", shown)).strip()) for named, shown in cell.findall(row)]
            for row in rows
        ]
        for rows in tables
    ]


def texts_of(rows):
    return [[shown for _, shown in row] for row in rows]


@pytest.fixture
def page_of(add_model, tables, tmp_path):
    """page_of(day) is what a page says that is written now."""
    add_model(MODEL.name, MODEL.model_id, datetime(2026, 11, 1))
    tables.source.camera_of = lambda *_: None

    def write(day):
        states, file = DayReader(tables, "5%"), tmp_path / f"{day.date}.html"
        report = gather(tables, states, day, [(MODEL.name, MODEL.model_id)], wants_facts=True)
        file.with_suffix(".json").write_text(json.dumps(report.to_json(), default=str))
        return IndexRow.read(file, day.date)

    return write


@pytest.fixture
def pages(database, page_of):
    """The pages of ten days: of a camera that is well, one whose pictures turn black, and one that stops."""
    numbers, found = count(1), []
    for ago in reversed(range(10)):
        day, rows = DAY.before(ago), []
        of_day = {"added_at": day.start.replace(tzinfo=None), "first_seen": (day.end + timedelta(hours=3)).timestamp()}
        of_day |= {"contrast": 50.0, "sharpness": 12.0}
        for camera, brightness in (("well", 90.0), ("dark", 2.0 if ago < 2 else 90.0), ("mute", 90.0)):
            for _ in range(0 if camera == "mute" and ago < 4 else 6 + 2 * (ago % 3)):
                number = next(numbers)
                its = {"id": number, "location": f"/{number}.jpg", "camera": camera}
                its |= {"brightness": brightness, "look": number}
                rows.append(of_day | its)
        with database.write() as connection:
            register_rows(connection, *rows)
        ref, *refs = (ImageRef(str(row["id"]), row["location"]) for row in rows)
        bad = [Broken(ref, Reason.TRUNCATED, "ends early", "decode", FileFacts(), "d")]
        labels = ("fox", "deer", "deer")
        commit(database, [Prediction(one, Output(labels[int(one.image_id) % 3], 0.9)) for one in refs], bad)
        with database.write() as connection:  # two are an event
            connection.execute(text("UPDATE infer_pictures SET event = id - 1 + id % 2, event_last = id + id % 2"))
        found.insert(0, page_of(day))
    return found


def test_each_number_of_a_camera_is_that_of_the_rows(pages, database):
    page = render_index(pages, AT)
    (heading, *grid), _, weeks, (_, *sums), *_ = tables_of(page)

    def rows(query):
        with database.read() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    images = "SELECT camera, date(added_at), count(*) FROM infer_pictures GROUP BY 1, 2"
    assert [shown for _, shown in heading[1:]] == [f"{one:%-d %b}" for one in DATES[:10]]
    found = {(row[0][1], str(day)): cell[1] for row in grid for day, cell in zip(DATES, row[1:], strict=False)}
    assert {key: shown.rstrip("!") for key, shown in found.items() if shown.rstrip("!")} == {
        (camera, day): str(number) for camera, day, number in rows(images)
    }
    assert {key for key, shown in found.items() if shown.endswith("!")} == {
        *(("dark", str(day)) for day in DATES[:2]),
        *(("mute", str(day)) for day in DATES[:4]),
    }
    labels = rows("SELECT camera, label, count(*) FROM infer_shown_events GROUP BY 1, 2 ORDER BY 1, 3 DESC")
    events = dict(rows("SELECT camera, count(*) FROM infer_events GROUP BY 1"))
    assert texts_of(sums) == [
        [
            camera,
            str(number),
            str(events[camera]),
            ", ".join(f"{one} {num}" for name, one, num in labels if name == camera),
        ]
        for camera, number in rows("SELECT camera, count(*) FROM infer_pictures GROUP BY 1 ORDER BY 1")
    ]
    heading, *weeks = texts_of(weeks)
    assert (heading[-1], sum(int(row[-1]) for row in weeks)) == ("events", sum(events.values()))


def test_what_was_wrong_is_told_with_the_last_page_that_says_so(pages):
    newest, _, mute_since = DATES[0], DATES[1], DATES[4] + timedelta(days=1)
    told = texts_of(tables_of(render_index(pages, AT))[1])
    assert [(day, shown.split(":")[0]) for day, shown in told] == [
        (str(newest), f"Camera dark has black images since {DATES[1]}"),
        (str(newest), f"Camera mute has brought no images since {mute_since}"),
    ]
    page = render_index(pages, AT)
    assert 'title="dark camera">' in page
    assert ' title="6 images, 1 rejected">6</td>' in page


def test_the_pages_of_a_day_tell_what_had_begun_by_then_whenever_they_are_written(pages, page_of, database):
    query = "SELECT max(CASE WHEN brightness > 50 THEN id END), min(CASE WHEN brightness < 50 THEN id END)"
    with database.read() as connection:
        last_good, first_bad = connection.execute(text(f"{query} FROM infer_pictures WHERE camera = 'dark'")).one()
    assert [(one.camera, one.last_good, one.first_bad) for one in pages[0].ill] == [
        ("dark", f"/{last_good}.jpg", f"/{first_bad}.jpg"),
        ("mute", None, None),
    ]
    assert [one.camera for one in page_of(DAY.before(2)).ill] == ["mute"]
    assert page_of(DAY.before(4)).ill == ()


def row_of(date_, cameras=(), ill=()):
    summary = DaySummary(date_, "good", (), sum(one.images for one in cameras), 0, 0)
    num_events = sum(one.events for one in cameras)
    return IndexRow(summary, f"{date_}.html", AT, num_events=num_events, cameras=tuple(cameras), ill=tuple(ill))


def ill(camera, since, kind="dark camera"):
    return IllCamera(camera, kind, since, f"has black images since {since}", None, None)


def test_200_cameras_have_the_newest_60_pages_and_one_page_of_a_size_for_a_phone():
    names = [f"site-{number // 20}/cam{number:03}" for number in range(200)]
    labels = {"species": {f"label {number}": 100 - number for number in range(20)}}
    cameras = [CameraOfDay(name, 1234, 1, 56, labels) for name in names]
    rows = [row_of(one, cameras, [ill(name, DATES[3]) for name in names]) for one in DATES]
    page = render_index(rows, AT)
    grid, told, *_, sums = tables_of(page)
    assert [len(row) for row in grid] == [NUM_CAMERA_DAYS + 1] * 201
    assert [row[0] for row in texts_of(grid[1:])] == names
    assert (len(told), len(sums)) == (NUM_ILL_CAMERAS, 201)
    assert "180 more" in Outline(page).text
    assert texts_of(sums)[1][1:3] == ["74,040", "3,360"]
    assert texts_of(sums)[1][3].startswith("label 0 6,000, label 1 5,940, ")
    assert texts_of(sums)[1][3].endswith(f", {20 - NUM_LABELS} more labels")
    assert len(page.encode()) < 1_500_000


def test_a_cell_is_as_dark_as_its_share_of_the_best_day_and_a_gap_is_empty():
    images = {0: 1, 1: 100, 3: 50}
    rows = [row_of(DATES[ago], [CameraOfDay("a", images[ago], 0, 0)] if ago in images else ()) for ago in range(4)]
    (history,) = gather_cameras(rows)
    assert [(cell.num_images, cell.shade) for cell in history.cells] == [(1, 1), (100, 4), (0, 0), (50, 2)]
    page = render_index(rows, AT)
    assert [named for named, _ in tables_of(page)[0][1][1:]] == [' class="n1"', ' class="n4"', "", ' class="n2"']
    assert "events" not in Outline(page).text


def test_an_illness_lasts_from_its_first_day_to_the_last_page_that_tells_it():
    rows = [row_of(one, [CameraOfDay("a", 5, 0, 0)]) for one in DATES[:8]]
    for ago, since in ((1, 2), (4, 6), (5, 6)):
        rows[ago] = row_of(DATES[ago], [CameraOfDay("a", 5, 0, 0)], [ill("a", DATES[since])])
    (history,) = gather_cameras(rows)
    assert [ago for ago, cell in enumerate(history.cells) if cell.is_ill] == [1, 2, 4, 5, 6]
    assert [(row.day.date, one.since) for row, one in history.ill] == [(DATES[1], DATES[2])]


def test_a_camera_is_silent_from_the_day_on_that_has_no_images():
    rows = [row_of(one, [CameraOfDay("a", 5, 0, 0)] if ago > 1 else ()) for ago, one in enumerate(DATES[:4])]
    rows[0] = row_of(DATES[0], ill=[ill("a", DATES[2], SILENT.name)])
    (history,) = gather_cameras(rows)
    assert [cell.is_ill for cell in history.cells] == [True, True, False, False]


def test_hostile_names_of_cameras_and_labels_are_text():
    labels = {"<b>model</b>": dict.fromkeys(HOSTILE, 1), "javascript:alert(1)": {HOSTILE[0]: 1}}
    cameras = [CameraOfDay(name, 3, 1, 2, labels) for name in HOSTILE]
    page = render_index([row_of(DATES[0], cameras, [ill(name, DATES[0], "<i>") for name in HOSTILE])], AT)
    check_harmless(page)
    assert "<script>alert(1)</script>.jpg" in Outline(page).text


@pytest.mark.parametrize("cameras", [(), (CameraOfDay("", 3, 0, 1),)], ids=["none", "unknown"])
def test_without_a_camera_there_are_weeks_alone(cameras):
    page = render_index([row_of(DATES[0], cameras)], AT)
    assert (len(tables_of(page)), "amera" in page.partition("</style>")[2]) == (1, False)


def test_pictures_without_a_camera_are_the_last_row():
    page = render_index([row_of(DATES[0], [CameraOfDay("", 3, 0, 0), CameraOfDay("a", 1, 0, 0)])], AT)
    assert texts_of(tables_of(page)[0]) == [["camera", "20 Nov"], ["a", "1"], ["(none)", "3"]]


def test_a_page_of_a_former_version_has_no_labels_and_one_that_is_damaged_is_none(pages, tmp_path):
    file, day = tmp_path / f"{DATES[0]}.html", DATES[0]
    data = json.loads(file.with_suffix(".json").read_text())
    for camera in data["events"]["cameras"]:
        del camera["labels"]
    file.with_suffix(".json").write_text(json.dumps(data))
    assert [one.labels for one in IndexRow.read(file, day).cameras] == [{}, {}]
    for changed in ({"ill": [{}]}, {"events": {"cameras": 3}}, {"made_at": "never"}):
        file.with_suffix(".json").write_text(json.dumps(data | changed))
        assert IndexRow.read(file, day) is None
