"""The groups of a second network's labels, and which labels are not allowed, as infer_shown_crops follows them."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import label_groups, models

NOT_ALLOWED = -1  # in place of the depth of a label that is not allowed
Groups = Mapping[str, tuple[str, ...] | None]  # by label its groups, from the root to itself; None: it is not allowed


def read_label_groups(database: Database, model: str) -> Groups:
    """Return the groups of a model's labels from the root down to the label itself; None: it is not allowed."""
    columns = label_groups.c.label, label_groups.c.depth, label_groups.c.ancestor
    wanted = select(*columns).where(label_groups.c.model == model).order_by(*columns)
    chains = defaultdict[str, list[str]](list)
    with database.read() as connection:
        rows = connection.execute(wanted).all()
    for label, _, ancestor in rows:
        chains[label].append(ancestor)
    barred = {row.label for row in rows if row.depth == NOT_ALLOWED}
    return {label: None if label in barred else tuple(chain) for label, chain in chains.items()}


def read_groups(database: Database, model: str) -> set[str]:
    """Return the groups that a model's labels belong to, with those labels."""
    return {group for chain in read_label_groups(database, model).values() if chain for group in chain}


def read_all_labels(connection: Connection) -> set[str]:
    """Return the labels of all models that have run, and the groups that any belongs to."""
    manifests = connection.scalars(select(models.c.manifest)).all()
    groups = connection.scalars(select(label_groups.c.ancestor))
    return {label for manifest in manifests for label in manifest.get("labels", ())} | {*groups}


def replace_label_groups(database: Database, model: str, groups: Groups) -> None:
    """Replace all groups of a model's name in one transaction."""
    rows: list[dict[str, object]] = []
    for label, chain in groups.items():
        key = {"model": model, "label": label}
        if chain is None:
            rows.append(key | {"depth": NOT_ALLOWED, "ancestor": ""})
        else:
            rows += [key | {"depth": depth, "ancestor": group} for depth, group in enumerate(chain)]

    def replace(connection: Connection) -> None:
        # One after another: a server's DELETE would not see what another command inserts meanwhile.
        connection.execute(select(models.c.id).where(models.c.name == model).with_for_update()).all()
        connection.execute(delete(label_groups).where(label_groups.c.model == model))
        if rows:
            connection.execute(insert(label_groups), rows)

    database.transact(replace)
