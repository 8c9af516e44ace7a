"""A server that is silent: one that works for long is waited for, one that has frozen is not."""

import os
import signal
import time

import pytest
from sqlalchemy import text

from infer_app.base.errors import Interrupted
from infer_app.run.stop import Stop
from infer_app.tables.engine import reconnect
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.reconnect import ConnectionLost
from tests.databases.conftest import only

pytestmark = only("postgres")


@pytest.fixture
def patient(url, server):
    if server is None:
        pytest.skip("needs a server of one's own")
    with Database(f"{url}&connect_timeout=2") as database:
        yield database


@pytest.fixture
def impatient(patient, monkeypatch):
    monkeypatch.setattr(reconnect, "SILENCE_S", 0.5)
    return patient


def test_a_statement_that_takes_long_is_no_frozen_server(impatient):
    with impatient.read() as connection:
        assert connection.scalar(text("SELECT 7 FROM pg_sleep(2)")) == 7


def test_a_lock_that_another_session_holds_is_not_waited_for_for_ever(impatient, monkeypatch):
    monkeypatch.setattr(reconnect, "LOCK_LIMIT_S", 1.0)
    with impatient.write() as connection:
        connection.execute(text("CREATE TABLE locked (id int)"))
    with impatient.write() as holder:
        holder.execute(text("LOCK TABLE locked"))
        with pytest.raises(ConnectionLost, match="another session has held a lock"), impatient.write() as connection:
            connection.execute(text("INSERT INTO locked VALUES (1)"))
    with impatient.write() as connection:
        connection.execute(text("INSERT INTO locked VALUES (2)"))
        assert connection.scalars(text("SELECT id FROM locked")).all() == [2]


def test_a_signal_ends_a_transaction_of_a_frozen_server(patient, server):
    """Its rollback is not waited for, nor is the transaction begun again."""

    def freeze_and_ask(connection):
        connection.execute(text("SELECT 1"))
        with server.frozen():
            os.kill(os.getpid(), signal.SIGTERM)
            connection.execute(text("SELECT 1"))

    began = time.monotonic()
    with Stop(grace_s=1), pytest.raises(Interrupted):
        patient.transact(freeze_and_ask)
    assert time.monotonic() - began < reconnect.SILENCE_S
    with patient.read() as connection:
        assert connection.scalar(text("SELECT 7")) == 7
