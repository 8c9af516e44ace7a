"""The program's tables, whose names all start with infer_, so that they fit beside the user's own."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Date,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.column_types import MAX_ID, OURS, EncodedJSON, Exact, LongBytes, Microseconds

metadata = MetaData(info={OURS: True})
VERSION_TABLE = "infer_migrations"
VERSION = "2"  # the number of the layout of the tables, which their database keeps

# Times are UTC without a zone in every database, because SQLite has no type with a zone.

Number = BigInteger().with_variant(Integer, "sqlite")  # there the row's own, which needs no index
_IS_OURS = text("added_at IS NOT NULL")
_IS_QUEUED = text("queued_at IS NOT NULL")  # those of the last days; MariaDB has no index of some rows only
_IS_UNLISTED = text("unlisted_since IS NOT NULL")
_HAS_EVENT = text("event IS NOT NULL")
_IS_COPY_OF = text("copy_of IS NOT NULL")
_IS_FIRST = text("event = id")  # of its event
OUR_IMAGES = "infer_images"  # a view of what is registered here: by a command, or as files of watched folders
# A row for each picture that was registered or that a run selected. Results name its number.
pictures = Table(
    "infer_pictures",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),  # its number, which is never given twice
    Column("registered", Integer, nullable=False),  # 1: by a walk or a command, as ours; 0: listed by the user's table
    Column("image_id", Exact(MAX_ID), nullable=False),  # as the source has it; of ours the number
    Column("location", Exact(), nullable=False),  # as the source lists it, without secrets
    Column("key", BigInteger, nullable=False),  # `picture_key` of id and location, which tell pictures apart
    Column("size", BigInteger),  # bytes; this and the two below are of the file as it was last seen
    Column("modified", Double),  # seconds since the epoch; NULL where there is no such time
    # Once the file has changed since the picture was first seen; empty for a remote one, of which it is not known.
    Column("sha256", String(64)),
    Column("first_seen", Double, nullable=False),  # seconds since the epoch: in SQLite a third of a time as text
    Column("added_at", Microseconds),  # decides the day: when it was registered or taken, or the time of the user's row
    # When a watched folder's image was registered: runs take it, however old its day. NULL for all others, and when it
    # was tried for some days.
    Column("queued_at", Microseconds),
    Column("missing_since", Microseconds),  # when a walk over its watched folder first found its file gone; NULL: there
    Column("unlisted_since", Microseconds),  # when a run first found no such row in the user's table; NULL: there
    Column("camera", Exact(MAX_ID)),  # empty: none is known; NULL: it was never asked
    Column("taken_at", Microseconds),  # by the camera's own clock
    Column("taken_offset", Integer),  # of that clock from UTC, in seconds, if it is stated
    Column("taken_from", String(16)),  # a TimeOrigin; NULL: the file was not read
    # The number of its event's first picture, or one of those below; NULL: none is asked.
    Column("event", BigInteger),
    Column("captured_at", Microseconds),  # by the camera's clock, put right; this and the one below go with the event
    Column("event_last", BigInteger),  # of the first picture of an event: the number of the last
    Column("copy_of", BigInteger),  # with IS_COPY: the number of the picture whose bytes it has, of another camera
    # This and the three below as PictureFigures has them; NULL: not measured, too small, or never decoded.
    Column("brightness", Double),
    Column("contrast", Double),
    Column("sharpness", Double),
    Column("look", BigInteger),
    UniqueConstraint("key", "registered", name="uq_infer_pictures_key"),
    Index("ix_infer_pictures_image_id", "image_id"),  # for users' own SQL, which finds rows of the views by it
    # The key that a day's pages are read by.
    Index("ix_infer_pictures_added_at", "added_at", "id", sqlite_where=_IS_OURS),
    # PostgreSQL makes it so too; said in its words, it would load all of SQLAlchemy's PostgreSQL in every run.
    Index("ix_infer_pictures_queued_at", "queued_at", sqlite_where=_IS_QUEUED),
    Index("ix_infer_pictures_unlisted_since", "unlisted_since", sqlite_where=_IS_UNLISTED),
    Index("ix_infer_pictures_event", "event", sqlite_where=_HAS_EVENT),
    Index("ix_infer_pictures_copy_of", "copy_of", sqlite_where=_IS_COPY_OF),
    Index("ix_infer_pictures_captured_at", "camera", "taken_offset", "captured_at", sqlite_where=_IS_FIRST),
)
WITHOUT_CAMERA, WITHOUT_EVENT = -1, 0  # of pictures that wait for their camera, or for their event
IS_COPY = -2  # of pictures that have none, since the picture whose bytes they have counts

cameras = Table(
    "infer_cameras",
    metadata,
    Column("camera", Exact(MAX_ID), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),  # of the row among those of the camera
    Column("since", Microseconds),  # by the camera's own clock, as "until" and the times of pictures
    Column("until", Microseconds),  # the first time that is no longer covered
    Column("shift", Double, nullable=False),  # seconds that put its clock right
    Column("latitude", Double),  # degrees north
    Column("longitude", Double),  # degrees east
    Column("retired", Integer, nullable=False),  # 1: it brings no more pictures
    Column("location_id", Exact(MAX_ID)),  # of its place, which several cameras may share
    Column("location_name", Exact(MAX_ID)),
    Column("expect", String(16)),  # "daily", if it brings pictures every day
)

# One row, of the project that the database belongs to.
project_table = Table(
    "infer_project",
    metadata,
    Column("id", String(64), primary_key=True),  # a random name, by which a project knows its database and the reverse
    Column("host", Text),  # of the machine that wrote last
    Column("folder", Text),  # of its settings
    Column("last_picture", BigInteger, nullable=False),  # this and the one below are the last numbers given
    Column("last_object", BigInteger, nullable=False),
    Column("source", Text),  # what the last run read its images from: table or query, with its columns
    Column("source_url", Text),  # and the URL of its database, without a password
    Column("base", Text),  # the folder that its relative locations started at, on its machine
    Column("forgotten_before", Microseconds),  # images of days before it are no longer listed
    Column("read_by", Text),  # the settings by which images have their times, and the list was made of the user's table
    Column("event_gap", Double),  # seconds, by which events were made
)

models = Table(
    "infer_models",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("manifest", JSON, nullable=False),
    Column("created_at", Microseconds, nullable=False),  # when its first run began; 1970 for a version that never ran
    Column("in_use_since", Microseconds),  # NULL unless it is the version in use of its name
    Column("used_until", Microseconds),  # when it last ceased to be the version in use; NULL if that never happened
)


def _picture() -> Column[int]:
    key = ForeignKey("infer_pictures.id", ondelete="CASCADE")
    return Column("picture", BigInteger, key, primary_key=True, autoincrement=False)


predictions = Table(
    "infer_predictions",
    metadata,
    _picture(),
    Column("model_id", String(64), primary_key=True),
    Column("run_id", String(64), nullable=False),
    Column("variant", String(64), nullable=False),
    Column("label", Text),  # the best class, or that of the best object
    Column("score", Double),  # of the best class or object, or the number of a regression
    Column("output", EncodedJSON, nullable=False),
    Column("vector", LongBytes),  # little-endian
    Column("vector_dtype", String(16)),
    Column("vector_dim", Integer),
    Column("sha256", String(64)),  # of the bytes that were predicted
    Column("created_at", Microseconds, nullable=False),  # when it was predicted
    Column("width", Integer),  # pixels of the upright picture
    Column("height", Integer),
    Column("num_objects", Integer),  # rows of infer_objects, of a second network those of infer_object_predictions
    Column("detector_id", String(64)),  # of a second network: the version of its detector whose objects it was given
    # The first picture of some bytes is found without reading the others.
    Index("ix_infer_predictions_sha256", "sha256", "picture"),
)

objects = Table(
    "infer_objects",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),  # its number, which is never given twice
    Column("picture", BigInteger, nullable=False),
    Column("model_id", String(64), nullable=False),
    Column("object", Integer, nullable=False),  # its place in the picture: 0 is the best
    Column("label", Exact(), nullable=False),
    Column("class_index", Integer, nullable=False),
    Column("score", Double, nullable=False),
    Column("x", Double, nullable=False),  # left edge of the box: a share, 0-1, of the upright picture's width
    Column("y", Double, nullable=False),  # top edge: a share of its height
    Column("width", Double, nullable=False),
    Column("height", Double, nullable=False),
    UniqueConstraint("picture", "model_id", "object", name="uq_infer_objects_object"),
    ForeignKeyConstraint(["picture", "model_id"], [predictions.c.picture, predictions.c.model_id], ondelete="CASCADE"),
)

object_predictions = Table(
    "infer_object_predictions",
    metadata,
    Column(
        "object_id", BigInteger, ForeignKey(objects.c.id, ondelete="CASCADE"), primary_key=True, autoincrement=False
    ),
    Column("model_id", String(64), primary_key=True),
    Column("label", Exact()),  # this column and those below: as in infer_predictions
    Column("score", Double),
    Column("output", EncodedJSON, nullable=False),
    Column("vector", LongBytes),
    Column("vector_dtype", String(16)),
    Column("vector_dim", Integer),
)
OBJECT_COLUMNS = [objects.c[name] for name in DetectedObject._fields]

ALL_LABELS = ""  # in place of a label: all that have no threshold of their own
thresholds = Table(
    "infer_thresholds",
    metadata,
    Column("model", String(128), primary_key=True),  # its name: all its versions
    Column("label", Exact(MAX_ID), primary_key=True),  # empty: all labels without one of their own
    Column("threshold", Double, nullable=False),
)

# Places of a camera's view where a detector gives a box again and again, once somebody has decided about them.
places = Table(
    "infer_places",
    metadata,
    Column("camera", Exact(MAX_ID), primary_key=True),
    Column("object", BigInteger, primary_key=True, autoincrement=False),  # the number of the object whose box it is
    Column("label", Exact(), nullable=False),  # of any detector
    *(Column(name, Double, nullable=False) for name in ("x", "y", "width", "height")),  # as in infer_objects
    Column("hidden", Integer, nullable=False),  # 1: objects there are not shown; 0: they are, and it is listed no more
    Column("until", Microseconds),  # when the last object there was taken, once it is over; NULL: it lasts
)

label_groups = Table(
    "infer_label_groups",
    metadata,
    Column("model", String(128), primary_key=True),  # its name: all its versions
    Column("label", Exact(MAX_ID), primary_key=True),
    # Of the ancestor: its edges from the root of the taxonomy. A label's ancestors, itself among them, have one each.
    Column("depth", Integer, primary_key=True, autoincrement=False),
    Column("ancestor", Exact(MAX_ID), nullable=False),  # empty, with depth -1: the label is not allowed
)

rejections = Table(
    "infer_rejections",
    metadata,
    _picture(),
    Column("model_id", String(64), primary_key=True),
    Column("run_id", String(64), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Column("stage", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("size", BigInteger),  # bytes; this and the two below are of the file that was rejected
    Column("modified", Double),  # seconds since the epoch
    Column("sha256", String(64)),  # of a URL that was not read: digits of its own, which tell whether it has changed
    Column("decoder", Text, nullable=False),  # with its version: decoders disagree about what is broken
    Column("created_at", Microseconds, nullable=False),
    Column("detector_id", String(64)),  # as in infer_predictions
)

runs = Table(
    "infer_runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("day", Date, nullable=False),
    Column("time_zone", String(64), nullable=False),
    Column("interval_start", Microseconds, nullable=False),
    Column("interval_end", Microseconds, nullable=False),
    Column("model", String(128), nullable=False),
    Column("model_id", String(64), nullable=False),
    Column("variant", String(64), nullable=False),
    Column("executor", String(16), nullable=False),
    Column("device", String(64), nullable=False),
    Column("host", String(255), nullable=False),
    Column("process", String(64), nullable=False),  # machine.process_identity, to tell a dead owner from a living one
    Column("versions", JSON, nullable=False),
    Column("state", String(16), nullable=False),  # running, done or failed
    Column("started_at", Microseconds, nullable=False),
    Column("heartbeat_at", Microseconds, nullable=False),
    Column("ended_at", Microseconds),
    Column("selected", Integer, nullable=False, default=0),
    Column("predicted", Integer, nullable=False, default=0),
    Column("rejected", Integer, nullable=False, default=0),
    Column("reasons", JSON),
    Column("stages", JSON),  # CPU milliseconds per image
    Column("seconds", Double),
    Column("images_per_second", Double),
    Column("limit_images_per_second", Double),
    Column("exit_code", Integer),
    Column("error", Text),
    Column("throughput", JSON),  # further measurements of its speed, named as in the report
    Column("variant_sha256", String(64)),  # of the checksums of the variant's files
    Column("last_commit", String(16)),  # a random name, to detect a commit that is repeated because its answer was lost
    Index("ix_infer_runs_day_model_id", "day", "model_id"),
)

# What somebody should look at. A few rows.
notices = Table(
    "infer_notices",
    metadata,
    Column("kind", String(32), primary_key=True),
    Column("subject", Exact(MAX_ID), primary_key=True),  # tells those of a kind apart, as a camera does
    Column("key", Text, nullable=False),  # another one is told anew
    Column("text", Text, nullable=False),
    Column("command", Text, nullable=False),  # that does it or shows more; may be empty
    Column("level", String(16), nullable=False),
    Column("since", Microseconds, nullable=False),
    Column("until", Microseconds),  # when it was over; that of an event is the same as "since". NULL: it holds
    Column("mailed_at", Microseconds),  # when `infer run -q` printed it last
    Column("posted_at", Microseconds),  # when the webhook took it last
)
