"""Places of cameras, boxes that repeat, pictures whose bytes another camera's picture has, and what they look like."""

from functools import partial

from alembic import op
from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String, Table, column, inspect, table, update

from infer_app.tables.engine.column_types import OURS, Exact, Microseconds

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add what is missing: MariaDB keeps each of these where a former upgrade was stopped."""
    _add("infer_cameras", Column("location_id", Exact(512)), Column("location_name", Exact(512)))
    _add("infer_cameras", Column("expect", String(16)))
    _add("infer_pictures", Column("copy_of", BigInteger), Column("look", BigInteger))
    _add("infer_pictures", *(Column(name, Double) for name in ("brightness", "contrast", "sharpness")))
    Table(
        "infer_places",
        MetaData(info={OURS: True}),
        Column("camera", Exact(512), primary_key=True),
        Column("object", BigInteger, primary_key=True, autoincrement=False),
        Column("label", Exact(), nullable=False),
        *(Column(name, Double, nullable=False) for name in ("x", "y", "width", "height")),
        Column("hidden", Integer, nullable=False),
        Column("until", Microseconds),
    ).create(op.get_bind(), checkfirst=True)
    notices = table("infer_notices", column("kind"), column("key"))  # told already, with another text
    op.execute(update(notices).where(notices.c.kind == "silent camera").values(key=""))
    create = partial(op.create_index, if_not_exists=True)
    create("ix_infer_pictures_copy_of", "infer_pictures", ["copy_of"], sqlite_where=column("copy_of").is_not(None))
    create("ix_infer_predictions_sha256", "infer_predictions", ["sha256", "picture"])


def _add(table: str, *columns: Column[object]) -> None:
    known = {one["name"] for one in inspect(op.get_bind()).get_columns(table)}
    for one in columns:
        if one.name not in known:
            op.add_column(table, one)
