import base64
import hashlib
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from html.parser import HTMLParser

import pytest
from sqlalchemy import update

from infer_app.ask.day_report import DaySummary
from infer_app.ask.model_report import NUM_SHOWN
from infer_app.ask.page.index_rows import IndexRow
from infer_app.ask.page.page import photo_groups, pictured, render_day, render_index
from infer_app.ask.page.thumbnails import MAX_ALL_BYTES, Thumbnail
from infer_app.tables.results.schema import predictions

HOSTILE = [
    "/p/<script>alert(1)</script>.jpg",
    '/p/"><img src="http://example.org/x" onerror=alert(1)>.jpg',
    "/p/two\nlines\r\x00\x1b[31m.jpg",
    "/p/\u202egpj.exe\u2066.jpg",
    "/p/{{ 7 * 7 }}{% raw %}.jpg",
    "javascript:alert(1)",
    "/p/" + "long" * 5000,
]
TAGS = re.findall(
    r"\w+",
    "html head meta title style body main header footer section div p span b i a img code h1 h2 h3 ol ul li dl dt dd"
    " table tr th td svg g rect line text",
)


class Outline(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def values(self, name):
        return [found[name] for _, found in self.tags if name in found]


def page_of(report, picture=b"jpeg", data=None):
    return render_day(report, dict.fromkeys(pictured(report), Thumbnail(picture)), data)


def check_harmless(page):
    """Check that no tag and no attribute comes from a text, and that nothing is fetched or run."""
    outline = Outline(page)
    assert {tag for tag, _ in outline.tags} <= set(TAGS)
    assert not [name for _, found in outline.tags for name in found if name.startswith("on") or name == "style"]
    assert all(value.startswith("data:image/jpeg;base64,") for value in outline.values("src"))
    assert all(re.fullmatch(r"\./[\w%.-]+", value) for value in outline.values("href"))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)


@pytest.fixture
def hostile_page(make_report, write, add_run):
    write(predicted=[(name, name, 0.1 + n / 10) for n, name in enumerate(HOSTILE)])
    write(rejected=[(f"{name}.", "truncated") for name in HOSTILE], detail="</style><script>alert(2)</script>")
    write(predicted=[("/p/before.jpg", "cat", 0.5)], days_ago=1)
    add_run(days_ago=1, host="<b>other</b>")
    add_run(
        host="</dd><script>alert(3)</script>",
        state="failed",
        error="javascript:alert(4) <a href=x>\u202e",
        throughput={"passed_over": {"trt</dt>": "<script>"}},
    )
    return page_of(make_report(), data='a"><script>.json')


def test_names_are_text_and_shown_with_their_control_characters_as_escapes(hostile_page):
    outline = Outline(hostile_page)
    assert "<script>alert(1)</script>.jpg" in outline.text + "".join(map(str, outline.values("title")))
    assert "two\\nlines\\r\\x00\\x1b[31m" in outline.text
    assert "\\u202egpj.exe\\u2066" in outline.text
    assert "{{ 7 * 7 }}" in outline.text
    check_harmless(hostile_page)


def test_the_policy_allows_pictures_inside_and_one_style_sheet_and_nothing_else(hostile_page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', hostile_page)
    (style,) = re.findall(r"<style>(.*?)</style>", hostile_page, re.DOTALL)
    sha256 = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{sha256}'; base-uri 'none'; form-action 'none'"
    )


def test_an_undecodable_name_is_shown(make_report, write):
    write(predicted=[("/p/a.jpg", "cat", 0.5)])
    report = make_report()
    (model,) = report.models
    undecodable = replace(model.least[0], location="/p/\udce9t\udce9.jpg")
    page = render_day(replace(report, models=(replace(model, least=(undecodable,)),)), {})
    assert "\\udce9t\\udce9.jpg" in page.encode().decode()


def test_the_largest_page_stays_under_its_size(make_report, write, add_run):
    reasons = ["truncated", "corrupt", "not_found", "empty", "read_error", "decode_timeout"]
    write(predicted=[(f"/p/{n}" + "<" * 4000, f"{n}" + "&" * 4000, n / 300) for n in range(300)])
    write(rejected=[(f"/p/{n}" + '"' * 4000, reasons[n % 6]) for n in range(60)], detail="<" * 9000)
    for n in range(40):
        add_run(days_ago=n, error="<" * 9000)
    report = make_report()
    assert len(report.models[0].least) == len(report.models[0].most) == NUM_SHOWN
    locations = pictured(report)
    assert len(locations) == len(set(locations))
    page = render_day(report, dict.fromkeys(locations, Thumbnail(bytes(MAX_ALL_BYTES // len(locations)))))
    assert 1_000_000 < len(page.encode()) < 1_500_000


def test_first_comes_what_a_person_asks_first(make_report, write, add_run):
    assert "Speed" not in Outline(render_day(make_report(), {})).text  # of a day without images
    write(predicted=[("/p/a.jpg", "cat", 0.5)])
    add_run()
    text = Outline(render_day(make_report(), {})).text
    told = ["20 November 2026", "✓ all is well", "1images", "What changed", "What to do", "Nothing.", "Photos"]
    told += ["Labels", "Scores", "Speed", "CPU time per image", "Environment"]
    assert sorted(told, key=text.index) == told


def test_a_picture_that_was_replaced_is_not_shown_and_it_is_said_how_many_are_gone(make_report, write, database):
    """Neither with a label nor with the reason of a rejection, which are of other bytes."""
    write(predicted=[("/p/a.jpg", "cat", 0.5), ("/p/b.jpg", "cat", 0.7)], rejected=[("/p/c", "corrupt")])
    with database.write() as connection:
        connection.execute(update(predictions).values(sha256="ab" * 32))
    now = {"/p/a.jpg": Thumbnail(b"a", "cd" * 32), "/p/b.jpg": Thumbnail(b"b", "ab" * 32)}
    outline = Outline(render_day(make_report(), now | {"/p/c": Thumbnail(b"c", "ab" * 32)}))
    assert outline.values("src") == [f"data:image/jpeg;base64,{base64.b64encode(b'b').decode()}"]
    assert "The files of 1 of the 2 predicted images shown below were replaced since" in outline.text
    told = "1 of the 2 predicted images shown below can't be read or drawn any more"
    assert told not in outline.text
    del now["/p/a.jpg"]
    assert told in Outline(render_day(make_report(), now)).text


def test_numbers_are_not_called_confident(make_report, write):
    write(predicted=[("/p/a.jpg", None, -3.5), ("/p/b.jpg", None, 12.25)])
    report = make_report()
    regression = replace(report.models[0], output="regression")
    text = Outline(render_day(replace(report, models=(regression,)), {})).text
    assert "Highest scores" in text
    assert "confident" not in text
    assert "-3.50" in text


def test_pictures_of_what_harmed_a_decoder_are_not_tried(make_report, write):
    write(rejected=[("/p/a", "decoder_crash"), ("/p/b", "decode_timeout"), ("/p/c", "corrupt")])
    assert pictured(make_report()) == ["/p/c"]


def test_each_image_of_a_model_is_shown_once(make_report, write):
    write(predicted=[(f"/p/{n}.jpg", "cat", n / 20) for n in range(12)])
    report = make_report()
    assert [(title, len(images)) for title, images in photo_groups(report.models[0])] == [
        ("Most confident", NUM_SHOWN),
        ("Least confident", 4),
    ]


def test_the_page_of_all_days_has_a_row_for_each_week_and_says_what_needed_attention():
    good = DaySummary(date(2026, 11, 20), "good", (), 3, 1, 0)
    failed = DaySummary(date(2026, 11, 13), "failed", ("<b>lite0</b>: exit code 14",), 0, 0, 0)
    at = datetime(2026, 11, 21, 6, tzinfo=UTC)
    rows = [IndexRow(good, "2026-11-20.html", at), IndexRow(failed, "2026-11-13.html", at)]
    page = render_index(rows, at)
    outline = Outline(page)
    assert outline.values("href") == ["./2026-11-20.html", "./2026-11-13.html", "./2026-11-13.html"]
    assert [found["class"] for tag, found in outline.tags if tag == "td" and found.get("title")] == ["good", "failed"]
    assert "2026-11-20: all is well; 3 images, 1 rejected, 0 pending" in page
    assert "<b>lite0</b>: exit code 14" in outline.text
    assert outline.text.count(" Nov") == 2
    check_harmless(page)
    assert "There are no reports" in Outline(render_index([], at)).text


def test_pictures_whose_urls_differ_in_a_hidden_query_are_told_apart_by_their_ids(make_report, write):
    write(predicted=[(f"https://host/cam/img.php?id={9 - n}&key=SECRET", "cat", n / 10) for n in range(2)])
    write(predicted=[("https://host/cam/a.jpg?sig=SECRET", "cat", 0.5)], rejected=[("https://host/b?id=7", "corrupt")])
    page = render_day(make_report(), {})
    text = Outline(page).text
    names = "cam/img.php?***1", "cam/img.php?***2", "cam/a.jpg?***", "b?***4"
    assert [name for name in names if name not in text] == []
    assert "cam/a.jpg?***3" not in text
    assert [secret for secret in ("SECRET", "id=") if secret in page] == []
