import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.base.errors import UsageError
from infer_app.base.locations import (
    AllowedPrefix,
    PathMapping,
    RemoteUrl,
    as_location,
    find_allowed_prefix,
    is_remote,
    location_as_id,
    parse_url,
    query_beside_signature,
    shown,
    storage_of,
    stored_location,
)
from infer_app.base.settings.load import load_settings

HOST = AllowedPrefix.parse("https://images.example.org/photos/")
BUCKET = AllowedPrefix.parse("s3://bucket/day")


@pytest.mark.parametrize(
    "location",
    [
        "https://images.example.org/photos/a.jpg",
        "HTTPS://IMAGES.example.org:443/photos/a.jpg?sig=%2F..%2F",
        "https://images.example.org/photos/2026/é%20b.jpg",
        "https://images.example.org/photos/100%25.jpg",
        "https://images.example.org/photos/...jpg",
    ],
)
def test_what_lies_below_a_place_is_allowed(location):
    assert find_allowed_prefix(location, [BUCKET, HOST]) == HOST


@pytest.mark.parametrize(
    "location",
    [
        "http://images.example.org/photos/a.jpg",
        "https://images.example.org:8443/photos/a.jpg",
        "https://images.example.org/photosets/a.jpg",
        "https://images.example.org/PHOTOS/a.jpg",
        "https://images.example.org/photos",
        "https://images.example.org.evil.example/photos/a.jpg",
        "https://images.example.org@evil.example/photos/a.jpg",
        "https://images.example.org:x@evil.example/photos/a.jpg",
        "https://evil.example\\@images.example.org/photos/a.jpg",
        "https://evil.example#@images.example.org/photos/a.jpg",
        "https://evil.example?@images.example.org/photos/a.jpg",
        "https://images.example.org\t/photos/a.jpg",
        "https://images.example.org\r\nHost: evil/photos/a.jpg",
        "https://images.example.org./photos/a.jpg",
        "https://images。example。org/photos/a.jpg",
        "https://ımages.example.org/photos/a.jpg",
        "https://images.example.org/photos/../secret.jpg",
        "s3://bucket/day/a.jpg?versionId=1",
        "https://images.example.org/photos/./../secret.jpg",
        "https://images.example.org/photos/%2e%2E/secret.jpg",
        "https://images.example.org/photos/.%2e/secret.jpg",
        "https://images.example.org/photos/%252e%252e/secret.jpg",
        "https://images.example.org/photos/..;/secret.jpg",
        "https://images.example.org/photos/..%2fsecret.jpg",
        "https://images.example.org/photos/..%5csecret.jpg",
        "https://images.example.org/photos/..%255csecret.jpg",
        "https://images.example.org/photos%2fa.jpg",
        "https://images.example.org//photos/a.jpg",
        "https://images.example.org/photos/a.jpg#b",
        "https://images.example.org/photos/a%00.jpg",
        "https:/images.example.org/photos/a.jpg",
        "https:images.example.org/photos/a.jpg",
        "//images.example.org/photos/a.jpg",
        "https:///photos/a.jpg",
        "s3://bucket/daylight/a.jpg",
        "s3://bucket/day/../a.jpg",
        "s3://bucket@evil/day/a.jpg",
        "s3://Bucket/day/a.jpg",
        "gs://bucket/day/a.jpg",
        "file:///photos/a.jpg",
        "/photos/a.jpg",
        "",
    ],
)
def test_whatever_could_be_read_in_two_ways_is_not_allowed(location):
    assert find_allowed_prefix(location, [BUCKET, HOST]) is None


def test_keys_of_objects_are_taken_literally():
    assert parse_url("s3://bucket/day/a b%2F#?.jpg") == RemoteUrl("s3", "bucket", 0, "/day/a b%2F#?.jpg")
    assert find_allowed_prefix("s3://bucket/day/a b%2F..%2F#?.jpg", [BUCKET]) == BUCKET


@given(st.text(max_size=30), st.sampled_from(["https://", "http://images.example.org/", "s3://bucket/", ""]))
def test_any_text_is_a_url_or_a_value_error(text, start):
    try:
        url = parse_url(start + text)
    except ValueError:
        return
    assert url.path.startswith("/")
    assert url.host
    if url.scheme in ("http", "https"):
        assert (url.path + url.query).isascii()
        assert not set(" \r\n\\") & set(url.path + url.query)


@given(st.text(alphabet="abc/.%25eEfFcC;\\@:#?", max_size=25))
def test_nothing_that_is_allowed_leads_out_of_its_place(text):
    location = f"https://images.example.org/photos/{text}"
    if find_allowed_prefix(location, [HOST]) is None:
        return
    path = parse_url(location).path
    for decoded in (path, path.replace("%2e", ".").replace("%2E", ".")):
        assert ".." not in [segment.partition(";")[0] for segment in decoded.split("/")]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("https://host/a.jpg?X-Amz-Signature=canary", "https://host/a.jpg?***"),
        ("https://user:canary@host/a.jpg?canary", "https://***@host/a.jpg?***"),
        ("https://canary@host", "https://***@host"),
        ("HTTP://host/a.jpg#?canary", "HTTP://host/a.jpg#?***"),
        ("s3://bucket/what?.jpg", "s3://bucket/what?.jpg"),
        ("/photos/what?.jpg", "/photos/what?.jpg"),
    ],
)
def test_what_is_shown_holds_no_secret(location, said):
    assert shown(location) == said


@pytest.mark.parametrize(
    ("location", "query"),
    [
        ("https://host/img.php?id=1&X-Amz-Date=2&X-Amz-Signature=a", "id=1"),
        ("https://host/a.jpg?AWSAccessKeyId=a&Expires=1&Signature=b", ""),
        ("https://host/a.jpg?GoogleAccessId=a&Expires=1&Signature=b", ""),
        ("https://host/a.jpg?sv=2024&se=2026&sp=r&sr=b&sig=x%2F", ""),
        ("https://host/a.jpg?Policy=a&Signature=b&Key-Pair-Id=c&size=2", "size=2"),
        ("s3://bucket/what?id=1", ""),
        ("/photos/what?id=1.jpg", ""),
    ],
)
def test_what_signs_a_url_tells_no_pictures_apart(location, query):
    assert query_beside_signature(location) == query
    ids = {location_as_id(location.replace(query, other) if query else location) for other in ("id=1", "id=2")}
    assert len(ids) == (2 if query else 1)
    assert [one for one in ids if stored_location(location) not in one or "id=" in one.partition("***")[2]] == []


def test_a_storage_is_a_host_or_a_bucket_or_this_machine():
    locations = ["https://Host:8443/a", "https://u:p@host/a", "s3://bucket/a/b", "/a", "file:///a", "c:/a"]
    assert [storage_of(one) for one in locations] == ["https://host:8443", "https://host", "s3://bucket", "", "", ""]


def test_a_scheme_that_nobody_knows_is_a_local_path():
    locations = "https://a/b", "S3://b/c", "ftp://a/b", "/a/https://b"
    assert [*filter(is_remote, locations)] == ["https://a/b", "S3://b/c"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('allow = "https://host/"', "a list is needed"),
        ('allow = ["ftp://host/"]', "known are http://"),
        ('allow = ["https://user:canary@host/"]', "user or password"),
        ('allow = ["https://host/?canary"]', "no query"),
        ('allow = ["s3://"]', "bucket"),
        ("retries = 99", "less than or equal to 10"),
        ("concurrency = 0", "greater than or equal to 1"),
    ],
)
def test_a_wrong_place_is_a_usage_error_without_its_secrets(tmp_path, line, message):
    config = tmp_path / "infer.toml"
    config.write_text(f"[remote]\n{line}\n")
    with pytest.raises(UsageError, match=message) as caught:
        load_settings(config)
    assert "canary" not in caught.value.message


def test_access_is_made_of_the_settings(tmp_path, monkeypatch):
    config = tmp_path / "infer.toml"
    config.write_text('[images]\ntimeout_s = 10\n[remote]\nallow = ["s3://bucket/day"]\nconcurrency = 4\n')
    monkeypatch.setenv("INFER_REMOTE__ALLOW_PRIVATE_HOSTS", "NAS.local,[::1]")
    access = load_settings(config).remote_access
    assert (access.places, access.private_hosts) == ((BUCKET,), frozenset({"nas.local", "::1"}))
    assert (access.timeout_s, access.retries, access.concurrency) == (9.0, 3, 4)


@pytest.mark.parametrize(
    ("recorded", "here"),
    [
        ("/srv/photos/a.jpg", "/photos/a.jpg"),
        ("/srv/photos/old/a.jpg", "/archive/a.jpg"),
        ("/srv/photos/older/a.jpg", "/photos/older/a.jpg"),
        ("/srv/photos-2/a.jpg", "/srv/photos-2/a.jpg"),
        ("/elsewhere/srv/photos/a.jpg", "/elsewhere/srv/photos/a.jpg"),
        ("/srv/photos/../a.jpg", "/photos/../a.jpg"),
    ],
)
def test_the_longest_folder_says_where_a_path_lies(recorded, here):
    path_map = PathMapping.of({"/srv/photos": "/photos/", "/srv/photos/old/": "/archive"})
    assert path_map.to_local(recorded) == here
    assert path_map.recorded(here) == recorded


def test_a_whole_machine_may_lie_in_a_folder():
    assert PathMapping.of({"/": "/host"}).to_local("/srv/a.jpg") == "/host/srv/a.jpg"
    assert PathMapping.of({"/host": "/"}).to_local("/host/srv/a.jpg") == "/srv/a.jpg"


def test_a_path_that_the_database_holds_as_bytes_is_text():
    values = b"/caf\xe9.jpg", memoryview("/é.jpg".encode()), None, 7
    assert [*map(as_location, values)] == ["/caf\udce9.jpg", "/é.jpg", "", "7"]
