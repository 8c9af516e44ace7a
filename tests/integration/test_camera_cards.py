"""Cards of cameras, read as they come: which camera, when, and which photos are one event."""

import csv
import io
import json
import os
import random
import shutil
import sqlite3
from collections import Counter, defaultdict
from datetime import UTC, datetime, time, timedelta
from operator import itemgetter
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from tests.support.waiting import wait_until
from tests.support.watched import stating

GAP_S = 60
COLORS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def take(file, at, color="red", name_of_tag=ExifTags.Base.DateTimeOriginal, camera_offset=None):
    """Save a photo as a camera does, of bytes that no other has; without a time if `at` is None."""
    exif = Image.Exif() if at is None else stating(f"{at:%Y:%m:%d %H:%M:%S}", camera_offset, name_of_tag)
    exif[ExifTags.Base.ImageDescription] = str(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), COLORS[color]).save(file, exif=exif)
    long_ago = (at or datetime(2026, 10, 1)).timestamp()
    os.utime(file, (long_ago, long_ago))
    return file


@pytest.fixture
def cards(project):
    project.set("images", watch=["photos"], day="taken")
    project.set("source", camera="folder:1")
    project.set("events", gap=f"{GAP_S}s")
    return project


def bursts(rng, num_days):
    """Yield (time or None, color) of the photos of a camera, in order; also over midnight, and within one second."""
    for day in range(num_days):
        start = datetime(2026, 10, 1) + timedelta(days=day)
        morning, midnight = timedelta(hours=5, minutes=rng.randrange(60)), timedelta(hours=23, minutes=59, seconds=40)
        for at in (start + morning, start + midnight):
            for _ in range(rng.randrange(4)):
                yield (at if rng.random() > 0.01 else None), rng.choice([*COLORS])
                at += timedelta(seconds=rng.choice([0, 1, 20, 59, 60, 61, 90]))


def test_cameras_in_whatever_order_their_cards_come_give_the_sequences_of_megadetector_utils(cards):
    """One card comes three weeks late, and one run is killed."""
    sequences = pytest.importorskip("megadetector.data_management.cct_json_utils")
    cards.upgrade()
    cards.set("run", chunk_size=8)
    rng, photos = random.Random(41), []
    for number in range(8):
        for place, (at, color) in enumerate(bursts(rng, 12)):
            folder = f"cam{number:02}/{100 + place // 20}MEDIA"
            photos.append((f"{folder}/{place:04}.jpg", at, color))
    late = [one for one in photos if one[0].startswith("cam07") and one[1] and 8 <= one[1].day <= 9]
    on_time = [one for one in photos if one not in late]
    rng.shuffle(on_time)
    third = len(on_time) // 3
    for part in (on_time[:third], on_time[third : 2 * third], on_time[2 * third :], late):
        for name, at, color in part:
            take(cards.photos / name, at, color)
        if part is not late:
            run_and_kill(cards)
        cards.infer("run")
    images = [{"file_name": name, "datetime": at, "location": name.split("/")[0]} for name, at, _ in photos]
    options = sequences.SequenceOptions()
    options.episode_interval_seconds = GAP_S
    theirs = defaultdict(set)
    for image in sequences.create_sequences(images, options):
        theirs[image["seq_id"]].add(image["file_name"])
    ours = events(cards)
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, theirs.values()))
    by_color = {name: color for name, _, color in photos}
    expected = Counter((event, by_color[name]) for event, names in ours.items() for name in names)
    counted = cards.rows("SELECT event, label, images FROM infer_shown_events WHERE count = 1")
    assert {(event, label): images for event, label, images in counted} == expected


def run_and_kill(project):
    """Kill a run once it has written some results, if it lives that long."""
    before = count_predicted(project)
    with project.start("run") as run:
        wait_until(lambda: run.poll() is not None or count_predicted(project) > before)
        run.kill()
        run.communicate()


def count_predicted(project):
    return project.rows("SELECT count(*) FROM infer_predictions")[0][0]


def events(project):
    """Return the photos of each event."""
    found = defaultdict(set)
    for location, event in project.rows("SELECT location, event FROM infer_pictures WHERE event > 0"):
        found[event].add(str(Path(location).relative_to(project.photos)))
    return found


START = datetime(2026, 10, 1, 5)


def test_what_continues_over_midnight_is_an_event_of_the_first_day(cards):
    midnight = datetime(2026, 10, 2)
    for number, seconds in enumerate((-30, 20)):
        take(cards.photos / "cam1" / f"{number}.jpg", midnight + timedelta(seconds=seconds))
    cards.infer("run")
    assert len(cards.infer_json("events", "--date", "2026-10-01")["events"]) == 1
    cards.infer("report", "--date", "2026-10-01", "--until", "2026-10-02")
    pages = [json.loads((cards.folder / f"reports/2026-10-0{day}.json").read_text())["events"] for day in (1, 2)]
    assert [(one["num_events"], one["num_continued"]) for one in pages] == [(1, 0), (0, 1)]
    assert "1 more continue" in (cards.folder / "reports/2026-10-02.html").read_text()
    assert "0 events; 1 more continue from the day before" in cards.infer("events", "--date", "2026-10-02")


def test_photos_that_were_predicted_before_get_their_facts_by_a_command_without_a_prediction(cards):
    cards.set("images", day="file")
    taken = cards.folder / "infer.toml"
    settings = taken.read_text()
    taken.write_text(settings.replace('camera = "folder:1"', "").replace(f'gap = "{GAP_S}s"', ""))
    for number, seconds in enumerate((0, 30, 300)):
        take(cards.photos / "cam1" / f"{number}.jpg", START + timedelta(seconds=seconds))
    take(cards.photos / "cam2" / "0.jpg", None)
    cards.infer("run")
    before = cards.rows("SELECT * FROM infer_predictions"), cards.rows("SELECT id FROM infer_runs")
    assert "cameras are not recorded" in cards.infer_json("cameras", "list", exit_code=2)["error"]
    assert "there are no events" in cards.infer_json("events", exit_code=2)["error"]
    taken.write_text(settings)
    waiting = "4 predicted images without {} yet: `infer cameras update`"
    assert waiting.format("their camera and time") in cards.infer("cameras", "list")
    assert waiting.format("an event") in cards.infer("events", "--date", "2026-10-01")
    gone = (cards.photos / "cam1" / "2.jpg").rename(cards.folder / "away.jpg")
    assert cards.infer("cameras", "update").splitlines() == [
        "3 images brought up to date: 2 exif, 1 none",
        "1 image can't be read, and will be looked at again by this command",
    ]
    gone.rename(cards.photos / "cam1" / "2.jpg")
    assert cards.infer("cameras", "update") == "1 image brought up to date: 1 exif\n"
    assert sorted(map(len, events(cards).values())) == [1, 1, 2]
    assert (cards.rows("SELECT * FROM infer_predictions"), cards.rows("SELECT id FROM infer_runs")) == before
    told = cards.infer("cameras", "list") + cards.infer("events", "--date", "2026-10-01")
    assert "1 of 4 images have no time of their own" in told
    assert "cameras update" not in told


def test_a_clock_that_is_wrong_is_named_and_put_right_by_a_table_of_cameras(cards):
    never_set = datetime(1999, 1, 1)
    for camera, at in (
        ("cam1", never_set),
        ("cam2", START),
        ("cam3/a", datetime(1950, 1, 1)),
        ("cam3/b", datetime(2099, 1, 1)),
    ):
        take(cards.photos / camera / "1.jpg", at)
    cards.infer("run")
    listed = {one["camera"]: one for one in cards.infer_json("cameras", "list")["cameras"]}
    assert {name: one["clock"] for name, one in listed.items()} == {
        "cam1": "its clock was before 2000",
        "cam2": "",
        "cam3": "its clock was before 2000; its clock was in the future;"
        " images of 1950-01-01 came after later ones: was its clock reset?",
    }
    (table := cards.folder / "cameras.csv").write_text(
        f"camera,from,to,shift,latitude,longitude,retired\ncam1,,1999-01-31,{(START - never_set).days}d,52.5,13.4,\n"
        "cam2,,,,,,yes\ncam9,,,,,,\n"
    )
    told = cards.infer("cameras", "set", str(table))
    assert "events made anew of cam1" in told
    assert "no image yet of cam9" in told
    listed = {one["camera"]: one for one in cards.infer_json("cameras", "list")["cameras"]}
    assert (listed["cam1"]["clock"], listed["cam1"]["first"]) == ("", "2026-10-01T00:00:00")
    assert (listed["cam1"]["retired"], listed["cam2"]["retired"]) == (False, True)
    assert " h, at 52.5, 13.4 until 1999-02-01 00:00 " in cards.infer("cameras", "list")
    assert cards.rows("SELECT started_at FROM infer_events WHERE camera = 'cam1'") == [("2026-10-01 00:00:00.000000",)]
    assert cards.rows("SELECT taken_at FROM infer_pictures WHERE camera = 'cam1'") == [("1999-01-01 00:00:00.000000",)]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("camera,place\na,b\n", "line 2: no such column: place"),
        ("from\n2026-10-01\n", "its first line names no column camera"),
        ("", "its first line names no column camera"),
        ("cam1,2026-10-01,,1h,,,\n", "its first line names no column camera"),
        ("camera,from\n,2026-10-01\n", "line 2: camera: Field required"),
        ("camera,latitude\na,91\n", "line 2: latitude: Input should be less than or equal to 90"),
        ("camera,from\na,soon\n", "line 2: from: "),
        ("camera,shift\na,5000000d\n", "line 2: shift: Input should be less than or equal to"),
        ("camera,from,to\na,2026-10-02,2026-10-01T12:00\n", "line 2: `to` is not after `from`"),
        ("camera,to\na,2026-10-01\na,2026-11-01\n", "two lines of a are of the same time"),
    ],
)
def test_a_table_of_cameras_that_can_not_be_read_changes_nothing(cards, table, error):
    cards.upgrade()
    (cards.folder / "cameras.csv").write_text(table)
    cards.infer("cameras", "set", str(cards.folder / "cameras.csv"), exit_code=2)
    assert error in cards.errors
    assert cards.rows("SELECT * FROM infer_cameras") == []


def test_camtrap_dp_holds_what_has_a_time_and_coordinates_and_counts_the_rest(cards):
    midnight = datetime(2026, 10, 2)
    for number, seconds in enumerate((-90, -30, 20)):  # of one event
        take(cards.photos / "north" / f"{number}.jpg", midnight + timedelta(seconds=seconds), "red")
    take(cards.photos / "north/green.jpg", midnight - timedelta(hours=5), "green", camera_offset="+05:30")
    take(cards.photos / "north/undated.jpg", None)
    take(cards.photos / "south/0.jpg", midnight - timedelta(hours=3))
    broken = take(cards.photos / "north/broken.jpg", midnight - timedelta(hours=4))
    broken.write_bytes(broken.read_bytes()[:-200])
    os.utime(broken, (midnight.timestamp(), midnight.timestamp()))
    cards.infer("run")
    table = cards.folder / "cameras.csv"
    table.write_text("camera,from,to,shift,latitude,longitude\nnorth,2026-09-01,,PT1H,47.5,8.25\nsouth,,,,,\n")
    cards.infer("cameras", "set", table)
    days = "--date", "2026-09-30", "--until", "2026-10-02"
    to = cards.folder / "package"
    cards.infer("export", *days, "--format", "camtrap-dp", "--to", to, exit_code=2)  # absolute paths
    assert not to.exists()
    options = (*days, "--format", "camtrap-dp", "--to", to, "--relative-to", cards.photos)
    counts = cards.infer_json("export", *options)
    tables = {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in to.glob("*.csv")}
    assert counts["left_out"] == {"time": 1, "coordinates": 1}
    assert (counts["images"], counts["rejected"], len(tables["media"])) == (4, 1, 5)
    (deployment,) = tables["deployments"]
    assert deployment["deploymentID"] == "north@20260901T000000"
    assert (deployment["locationID"], deployment["locationName"]) == ("north", "north")
    assert (deployment["deploymentStart"], deployment["deploymentEnd"]) == (
        "2026-09-01T01:00:00+00:00", "2026-10-02T01:00:20+00:00"
    )  # fmt: skip
    media = {one["mediaID"]: one for one in tables["media"]}
    assert media.keys() == {one["mediaID"] for one in tables["observations"] if one["mediaID"]}
    times = {one["filePath"]: one["timestamp"] for one in media.values()}
    assert times["north/green.jpg"] == "2026-10-01T20:00:00+05:30"
    assert times["north/0.jpg"] == "2026-10-02T00:58:30+00:00"
    columns = "observationType", "observationTags", "eventStart", "eventEnd"
    of_events = [one for one in tables["observations"] if one["observationLevel"] == "event"]
    assert sorted((tuple(one[name] for name in columns) for one in of_events), key=itemgetter(2)) == [
        ("animal", "label:green", "2026-10-01T20:00:00+05:30", "2026-10-01T20:00:00+05:30"),
        ("unclassified", "", "2026-10-01T21:00:00+00:00", "2026-10-01T21:00:00+00:00"),
        ("animal", "label:red", "2026-10-02T00:58:30+00:00", "2026-10-02T01:00:20+00:00"),
    ]
    assert [one["observationType"] for one in tables["observations"]].count("unclassified") == 2
    rows = list(csv.DictReader(io.StringIO(written(cards, *days, "--format", "csv"))))
    assert {(row["camera"], row["taken_at"]) for row in rows} >= {("south", "2026-10-01T21:00:00"), ("north", "")}


def test_camtrap_dp_has_places_that_cameras_share_names_of_species_and_each_photo_once(cards):
    """Of `north`, which has moved, nothing names the places; a copy of its card is in another folder."""
    for name, seconds, color in (("east/0", 0, "red"), ("west/0", 0, "green"), ("north/0", 0, "blue")):
        take(cards.photos / f"{name}.jpg", START + timedelta(seconds=seconds), color)
    take(cards.photos / "north/1.jpg", START + timedelta(days=1), "red")
    cards.infer("run")
    shutil.copytree(cards.photos / "north", cards.photos / "again")
    cards.infer("run", "--date", "today")
    (cards.folder / "cameras.csv").write_text(
        "camera;from;to;latitude;longitude;location_id;location_name\n"
        "east;;;47,5;8,25;P1;Spring\nwest;;;47,5;8,25;P1;Spring\nagain;;;1;1;;Hut\n"
        "north;;2026-10-01;46;8;;\nnorth;2026-10-02;;45,5;9;;\n"
    )
    cards.infer("cameras", "set", "cameras.csv")
    (cards.folder / "species.csv").write_text(
        "label,scientific_name,taxon_id,rank\nred,Vulpes vulpes,urn:fox,species\ngreen,Homo sapiens,,\nrad,Anas,,\n"
    )
    cards.set("export", species="species.csv")
    to = cards.folder / "package"
    dates = "--date", "2026-10-01", "--until", "2026-10-02"
    counts = cards.infer_json("export", *dates, "--format", "camtrap-dp", "--to", to, "--relative-to", cards.photos)
    assert "species.csv: no model has these labels: 'rad'" in cards.errors
    assert (counts["images"], counts["left_out"]) == (4, {"bytes of their own": 2})
    tables = {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in to.glob("*.csv")}
    places = [(one["cameraID"], one["locationID"], one["locationName"]) for one in tables["deployments"]]
    assert sorted(places) == [
        ("again", "Hut", "Hut"),
        ("east", "P1", "Spring"),
        *((("north", one, one)) for one in ("north 45.5, 9.0", "north 46.0, 8.0")),
        ("west", "P1", "Spring"),
    ]
    columns = "observationType", "scientificName", "observationTags"
    assert Counter(tuple(one[name] for name in columns) for one in tables["observations"]) == {
        ("animal", "Vulpes vulpes", "label:red"): 4,  # of media and of events
        ("human", "Homo sapiens", "label:green"): 2,
        ("animal", "", "label:blue"): 2,
    }
    assert json.loads((to / "datapackage.json").read_text())["taxonomic"] == [
        {"scientificName": "Homo sapiens"},
        {"scientificName": "Vulpes vulpes", "taxonID": "urn:fox", "taxonRank": "species"},
    ]
    (cards.folder / "cameras.csv").write_text("camera,latitude,longitude\nnorth,46,8\n")
    cards.infer("cameras", "set", "cameras.csv")
    to = "--to", cards.folder / "north", "--relative-to", cards.photos
    counts = cards.infer_json("export", *dates, "--format", "camtrap-dp", *to)
    assert counts["left_out"] == {"bytes of their own": 2, "coordinates": 2}


def written(project, *options):
    project.infer("export", *options, "--to", project.folder / "day.csv")
    return (project.folder / "day.csv").read_text()


def test_exports_say_of_which_camera_and_event_a_photo_is_and_unread_ones_are_counted(cards):
    """Of north three photos of two events are predicted, and one is not read; of south one is predicted."""
    for name, seconds in (("north/0", 0), ("north/1", 30), ("south/0", 0)):
        take(cards.photos / f"{name}.jpg", START + timedelta(seconds=seconds))
    cards.infer("run")
    for number in (2, 3):
        take(cards.photos / f"north/{number}.jpg", START + timedelta(hours=1))
    cards.infer("run", "--limit", "1")
    cards.infer("status", "--camera", "nowhere", exit_code=2)
    (north,) = (one for one in cards.infer_json("cameras", "list")["cameras"] if one["camera"] == "north")
    assert (north["num_images"], north["num_unread"]) == (4, 1)
    rows = csv.DictReader(io.StringIO(written(cards, "--date", "2026-10-01", "--camera", "north", "--format", "csv")))
    times, events = zip(*((row["taken_at"], row["event"]) for row in rows if row["camera"] == "north"), strict=True)
    assert times[:2] == ("2026-10-01T05:00:00", "2026-10-01T05:00:30")
    assert events[0] == events[1] != events[2]
    sample = "--count", "9", "--by", "random", "--format", "label-studio", "--to", cards.folder / "tasks.json"
    cards.infer("sample", "--date", "2026-10-01", *sample)
    tasks = json.loads((cards.folder / "tasks.json").read_text())
    assert {(one["data"]["camera"], one["data"]["taken_at"]) for one in tasks} >= {
        ("north", times[0]), ("north", times[1]), ("south", times[0])
    }  # fmt: skip


def test_a_photo_is_of_the_day_in_its_name_where_its_file_states_none(cards):
    cards.set("source", camera="folder:1", taken_in_name="%Y%m%d_%H%M%S")
    os.utime(take(cards.photos / "north/20261001_050000.jpg", None), (START.timestamp() + 9 * 86_400,) * 2)
    cards.infer("run")
    stored = "SELECT camera, taken_at, taken_from, added_at, event FROM infer_pictures"
    at = f"{START:%Y-%m-%d %H:%M:%S}.000000"
    assert cards.rows(stored) == [("north", at, "name", at, 1)]


def test_a_card_that_was_copied_twice_is_named_the_same_night_and_counts_once(cards):
    """The copies of 3 photos are of no event; without the first ones, they are."""
    for name, seconds in (("north/0", 0), ("north/1", 30), ("north/2", 300), ("south/0", 0)):
        take(cards.photos / f"{name}.jpg", START + timedelta(seconds=seconds))
    shutil.copy2(cards.photos / "south/0.jpg", cards.photos / "south/again.jpg")  # harmless
    assert "bytes" not in cards.infer("run", "-q")
    visits = "SELECT camera, images FROM infer_shown_events ORDER BY camera, started_at"
    once = [("north", 2), ("north", 1), ("south", 2)]
    assert cards.rows(visits) == once
    for photo in shutil.copytree(cards.photos / "north", cards.photos / "copy").iterdir():
        os.utime(photo, (START.timestamp(), START.timestamp()))
    told = "3 images of camera copy have the bytes of those of north, and no events"
    assert told in cards.infer("run", "-q")
    assert cards.rows(visits) == once
    assert told in cards.infer("status")
    listed = cards.infer("cameras", "list")
    assert "3 are copies of north's" in listed
    assert "without their camera" not in listed
    assert "without an event" not in cards.infer("events", "--date", "2026-10-01")
    assert [one["num_images"] for one in cards.infer_json("events", "--date", "2026-10-01")["events"]] == [2, 1, 2]
    cards.infer("run")
    assert cards.rows(visits) == once
    shutil.rmtree(cards.photos / "copy")
    assert f"over: {told}" in cards.infer("run", "-q")
    cards.infer("forget", "--missing", "--yes")
    assert cards.rows(visits) == once
    assert cards.rows("SELECT count(*) FROM infer_predictions") == [(5,)]


def test_the_photos_of_a_folder_that_was_renamed_count_once_until_the_former_ones_are_forgotten(cards):
    for name, seconds in (("north/0", 0), ("north/1", 30), ("south/0", 0)):
        take(cards.photos / f"{name}.jpg", START + timedelta(seconds=seconds))
    cards.infer("run")
    (cards.photos / "north").rename(cards.photos / "ridge")
    told = cards.infer("run", "-q")
    visits = "SELECT camera, images FROM infer_shown_events ORDER BY camera"
    assert "2 images of camera ridge have the bytes of those of north" in told
    assert "ridge has the events: `infer forget --missing" in told
    assert cards.rows(visits) == [("north", 2), ("south", 1)]
    cards.infer("forget", "--missing", "--yes")
    assert cards.rows(visits) == [("ridge", 2), ("south", 1)]
    assert "bytes" not in cards.infer("status")


def night(cards, day, photos):
    """Take photos on a day, (camera, brightness): how many, and return what the mail of the next morning says."""
    rng = random.Random(str(day))
    for (camera, brightness), count in photos.items():
        for number in range(count):
            at = datetime.combine(day, time(8)) + timedelta(minutes=30 * number)
            file = take(cards.photos / camera / f"{day}-{brightness}-{number}.jpg", at)
            grey = [min(255, max(0, brightness + rng.randrange(-3, 4) * 3 * (brightness > 9))) for _ in range(64)]
            picture = Image.new("L", (8, 8))
            picture.putdata(grey)
            with Image.open(file) as former:
                picture.resize((64, 64), Image.Resampling.NEAREST).convert("RGB").save(file, exif=former.getexif())
            os.utime(file, (at.timestamp(), at.timestamp()))
    told = cards.infer("run", "--quiet", "--date", str(day))
    with sqlite3.connect(cards.folder / "infer.db") as database:  # of a day before the next night
        database.execute("UPDATE infer_pictures SET first_seen = first_seen - 86400")
    return told.splitlines()


DAYS = [datetime.now(UTC).date() - timedelta(days=ago) for ago in range(9, 0, -1)]


def test_the_first_line_of_the_mail_names_the_camera_that_died_on_the_third_of_its_days(cards):
    cards.set("events", expect="daily")
    all_five = {(f"cam{number}", 90): 2 for number in range(1, 6)}
    for day in DAYS[:2]:
        assert night(cards, day, all_five) == []
    four = {camera: count for camera, count in all_five.items() if camera[0] != "cam3"}
    told = night(cards, DAYS[2], four)
    assert told[0].startswith(f"attention: camera cam3 has brought no images since {datetime.now(UTC):%Y-}")
    assert len(told) == 1
    assert night(cards, DAYS[3], four) == []
    (over,) = night(cards, DAYS[4], all_five)
    assert over.startswith("attention: over: camera cam3 has brought no images since")


def test_a_camera_whose_photos_turn_black_is_named_with_photos_before_and_after(cards):
    usual = {("cam1", 90): 6, ("cam2", 120): 6}
    for day in DAYS[2:8]:
        assert night(cards, day, usual) == []
    told = night(cards, DAYS[8], {("cam1", 90): 6, ("cam2", 2): 5, ("cam2", 120): 1})
    since = f"has black images since {DAYS[8]}: 5 of 6 images are black, 0 % before (by chance 1 in "
    assert [line.split(since)[0] for line in told] == ["attention: camera cam2 "]
    told = cards.infer_json("status")["notices"]
    assert [(one["kind"], one["subject"]) for one in told] == [("dark camera", "cam2")]
    cards.infer("report", "--date", str(DAYS[8]))
    (ill,) = json.loads((cards.folder / f"reports/{DAYS[8]}.json").read_text())["ill"]
    names = [Path(ill[name]).name for name in ("last_good", "first_bad")]
    assert names == [f"{DAYS[7]}-120-5.jpg", f"{DAYS[8]}-2-0.jpg"]
    page = (cards.folder / f"reports/{DAYS[8]}.html").read_text()
    section = page.split("Cameras to look at")[1].split("</section>")[0]
    assert section.count('src="data:image/jpeg;base64,') == 2
    assert f"Camera cam2 has black images since {DAYS[8]}" in section
