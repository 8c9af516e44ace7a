"""What a role may not do is told, and costs no more than it must."""

from datetime import datetime

import pytest

from infer_app.base.errors import DatabaseUnavailable
from infer_app.base.settings.sections import SourceSettings
from infer_app.run.database_checks import check_rights
from infer_app.tables.dry_run_database import open_dry_run_database
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import count_images
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.results.migrate import check_schema
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import metadata, predictions, rejections
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.listings import select_new
from tests.support.results import broken, commit, predicted, register_rows, stored

COUNT = 100


def test_what_a_rehearsal_writes_is_gone(database, register):
    register("/1.jpg", "/2.jpg")
    commit(database, predicted("1"), broken("2"))
    before = stored(database, predictions), stored(database, rejections)
    with open_dry_run_database(database) as rehearsal:
        commit(rehearsal, predicted(*map(str, range(COUNT)), label="dog"), broken("3"))
    assert (stored(database, predictions), stored(database, rejections)) == before


def test_a_read_only_connection_reads_and_can_not_write(url, database, register):
    register("/1.jpg")
    with Database(url, read_only=True) as read_only:
        assert len(select_new(read_only)) == 1
        with pytest.raises(DatabaseUnavailable) as caught, read_only.write() as connection:
            register_rows(connection, {"location": "/2.jpg", "added_at": datetime(2026, 11, 20)})
        assert caught.value.exit_code == 10
        with pytest.raises(DatabaseUnavailable):
            commit(read_only, predicted("1"))
    assert (count_images(database), stored(database, predictions)) == (1, {})


MAY_WRITE = "GRANT ALL ON {all} TO {role}"


@only("postgres")  # MariaDB's refusals are those of any statement that can't be done
def test_a_role_that_may_not_read_is_no_bug(database, add_role):
    with (
        Database(add_role()) as limited,
        pytest.raises(DatabaseUnavailable, match="permission denied for table infer_"),
    ):
        check_schema(limited)


def test_a_role_that_may_not_read_the_source_is_told_so(execute, add_role):
    execute("CREATE TABLE shots (id INTEGER, path VARCHAR(9), came VARCHAR(9))")
    settings = SourceSettings(table="shots", location="path", time="came")
    with (
        Database(add_role("GRANT SELECT ON {schema}.infer_runs TO {role}")) as limited,
        pytest.raises(DatabaseUnavailable, match="(?i)(permission|command) denied.*shots") as caught,
    ):
        check_source(UserTable(limited, settings))
    assert "to read the table of [source]" in caught.value.hint


@only("postgres")
def test_a_role_that_only_reads_is_no_bug(database, add_role):
    only_reads = "ALTER ROLE {role} SET default_transaction_read_only = on"
    with Database(add_role(MAY_WRITE, only_reads)) as limited:
        check_schema(limited)
        with pytest.raises(DatabaseUnavailable, match="cannot execute INSERT in a read-only transaction"):
            RunStore(limited).open_run(DAY, MODEL)
        with pytest.raises(DatabaseUnavailable, match="not even a rejection can be written: .*read-only"):
            commit(limited, good=predicted("1"))


@only("postgres")  # which alone has policies
def test_a_row_that_a_policy_refuses_costs_that_row_only(database, execute, add_role):
    """PostgreSQL has the same code for it as for a role that may not write at all."""
    execute(
        "ALTER TABLE infer_predictions ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY not_2 ON infer_predictions USING (picture <> 2)",
    )
    with Database(add_role(MAY_WRITE)) as limited:
        commit(limited, good=predicted("1", "2", "3"))
    assert stored(database, predictions, "label") == {"1": ("cat",), "3": ("cat",)}
    assert stored(database, rejections, "reason") == {"2": ("write_error",)}


@pytest.mark.parametrize(("refused", "exit_code"), [("objects", 10), ("project", 10), ("thresholds", 0), (None, 10)])
def test_doctor_names_the_tables_that_a_role_may_not_write(database, add_role, kind, refused, exit_code):
    def rights(limited):
        ((found, exit_code),) = [(one.found, one.exit_code) for one in check_rights(limited)]
        return found, exit_code

    all_written, ok = rights(database)
    assert (all_written.endswith(" tables can be written"), ok) == (True, 0)
    if kind == "mariadb" and refused:
        pytest.skip("it can't revoke what was granted for all tables")
    grants = (
        [MAY_WRITE, f"REVOKE INSERT ON infer_{refused} FROM {{role}}"]
        if refused
        else ["GRANT SELECT ON {all} TO {role}"]
    )
    with Database(add_role(*grants)) as limited:
        found, found_exit_code = rights(limited)
    tables = f"infer_{refused}" if refused else ", ".join(table.name for table in metadata.sorted_tables)
    assert found == f"{tables} can't be written"
    assert found_exit_code == exit_code
