"""Notifications of `infer run`: a ping, a webhook, a file of metrics. None of them changes how the run ends."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app import __version__
from infer_app.artifact.model_names import plain_name
from infer_app.base.atomic_file import replace_file
from infer_app.base.day import Day
from infer_app.base.errors import EXIT_BUG, SIGNALLED, DayHeld, Interrupted, as_known
from infer_app.base.printing import counted, shown_rate
from infer_app.base.run_report import ModelOutcome
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.settings.masks import mask_address
from infer_app.base.telemetry.log import bind, bind_models
from infer_app.base.telemetry.summary_line import describe_state, duration
from infer_app.cli.run.last_run import mark_as_told, read_due_notices, record_failure
from infer_app.run.stop import Stop
from infer_app.tables.listing.stored_notices import WEBHOOK

if TYPE_CHECKING:
    from infer_app.base.telemetry.notify import BackgroundTask, Ping

log = logging.getLogger(__name__)

AFTER_S = 5.0  # for all notifications, once the run is over
AFTER_SIGNAL_S = 2.0  # the sender of the signal waits
LOCK_S = 1.0


@dataclass
class RunSession:
    """The state of a run for logs and notifications: how it ended, or the error that ended it."""

    day: Day | None = None
    models: Sequence[str] = ()
    exit_code: int | None = None
    outcomes: Sequence[ModelOutcome] = ()
    result: dict[str, object] = field(default_factory=dict)  # as --json prints it
    line: str = ""  # the same as one line of text
    began: float = field(default_factory=time.monotonic)

    def start(self, days: Sequence[Day], models: Sequence[tuple[str, str]], shown_url: str) -> None:
        """Log the first line; `models` are names and ids.

        The bound context stays, so that the log line of a fatal error has it too.
        """
        self.models = [name for name, _ in models]
        bind(date=str(days[-1]))
        bind_models(models)
        more = f" and {counted(len(days) - 1, 'day')} before" if len(days) > 1 else ""
        values = (__version__, f"{days[-1]}{more}", ", ".join(self.models), shown_url)
        log.info("infer_app %s begins: %s, model %s, database %s", *values)

    def end(self, result: dict[str, object], outcomes: Sequence[ModelOutcome], exit_code: int) -> None:
        self.result, self.outcomes, self.exit_code = result, outcomes, exit_code
        models = "; ".join(map(_outcome_as_text, outcomes))
        self.line = f"exit code {exit_code} after {duration(self.seconds)}: {models}"

    def fail(self, error: BaseException) -> None:
        """Record the error; of a bug only its type, since its message may hold secrets."""
        self.exit_code = _exit_code(error)
        known = as_known(error)
        failure = {"error": known.message if known else type(error).__name__, "hint": known.hint if known else ""}
        date = self.day and str(self.day)
        self.result = failure | {"exit_code": self.exit_code, "date": date, "models": list(self.models)}
        self.outcomes = [ModelOutcome(model, self.exit_code) for model in self.models]
        self.line = f"exit code {self.exit_code}: {failure['error']}"

    def log_end(self) -> None:
        """Log the last line, unless the run ended with an error, which the command logs."""
        if self.exit_code is None or "error" in self.result:
            return
        level = logging.WARNING if self.exit_code else logging.INFO
        figures = {"exit_code": self.exit_code, "seconds": round(self.seconds, 1)}
        log.log(level, "%s", self.line, extra=figures | {"models": [_figures(one) for one in self.outcomes]})

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@contextmanager
def notifying(loaded: LoadedSettings, notify: bool) -> Iterator[RunSession]:
    """Log the end of a run and, if `notify`, send its notifications, also when the run can't start."""
    session = RunSession()
    ping = _start_ping(loaded) if notify else None
    try:
        session.models = list(map(plain_name, loaded.model_names))
        yield session
    except BaseException as error:
        if session.exit_code is None:
            session.fail(error)
            if notify and session.day and session.exit_code and not isinstance(error, (DayHeld, Interrupted)):
                record_failure(loaded, session.day, session.models, session.exit_code, str(session.result["error"]))
        raise
    finally:
        if notify:
            _notify(loaded, session, ping)
        session.log_end()


def _start_ping(loaded: LoadedSettings) -> Ping | None:
    if not loaded.ping.url:
        return None
    from infer_app.base.telemetry.notify import Ping  # loads an HTTP client

    return Ping(loaded.ping.url.get_secret_value())


def _notify(loaded: LoadedSettings, session: RunSession, ping: Ping | None) -> None:
    try:
        _send_notifications(loaded, session, ping)
    except Interrupted:  # by a second signal
        return
    except Exception:  # the run is done: not even a bug here may change its exit code
        log.warning("notifications failed", exc_info=True)


def _send_notifications(loaded: LoadedSettings, session: RunSession, ping: Ping | None) -> None:
    """Write the metrics and send ping and webhook at the same time; log a warning for each that fails."""
    exit_code = EXIT_BUG if session.exit_code is None else session.exit_code
    with Stop() as stop:  # a signal ends the waiting, not the program, whose work is done
        if loaded.metrics.textfile:
            _write_metrics(loaded.resolve(loaded.metrics.textfile), loaded.folder, session, exit_code)
        if not (ping or loaded.webhook.url):
            return
        from infer_app.base.telemetry.notify import BackgroundTask, post, wait_for

        due = read_due_notices(loaded, WEBHOOK, exit_code) if loaded.webhook.url else []
        until = time.monotonic() + (AFTER_SIGNAL_S if exit_code >= SIGNALLED else AFTER_S)
        tasks: list[tuple[str, BackgroundTask]] = []
        if ping and loaded.ping.url:
            tasks.append((loaded.ping.url.get_secret_value(), ping.end(exit_code, session.line)))
        if loaded.webhook.url:
            content = session.result | {"notices": [notice.to_json() for notice in due]}
            url, body = loaded.webhook.url.get_secret_value(), json.dumps(content).encode()
            webhook = BackgroundTask("webhook", lambda: post(url, body, "application/json"))
            tasks.append((url, webhook))
        wait_for([task for _, task in tasks], until, lambda: bool(stop.exit_code))
        if loaded.webhook.url and not webhook.problem:
            mark_as_told(loaded, WEBHOOK, due)
    for address, task in tasks:
        if task.problem:
            log.warning("the %s to %s failed: %s", task.name, mask_address(address), task.problem)


def _write_metrics(file: Path, project: Path, session: RunSession, exit_code: int) -> None:
    from infer_app.base.telemetry.metrics import read_samples, render_metrics  # loads what few runs need

    try:
        with _lock(file.parent):
            earlier = {}
            try:
                earlier = read_samples(file.read_text()) if file.is_file() else {}
            except ValueError:
                log.warning("the metrics in %s can't be read and are replaced", file)
            is_new = not file.exists()
            replace_file(file, render_metrics(earlier, project, session.outcomes, exit_code, session.seconds))
            if is_new:
                file.chmod(0o644)  # whatever the umask: the collector runs as another user
    except OSError as error:
        log.warning("no metrics in %s: %s", file, error.strerror or error)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock the folder, so that two runs ending together keep each other's metrics; a lock file would be left behind.

    Without the lock after LOCK_S the metrics are written all the same.
    """
    handle = os.open(folder, os.O_RDONLY)
    give_up_at = time.monotonic() + LOCK_S
    try:
        while time.monotonic() < give_up_at:
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _exit_code(error: BaseException) -> int:
    if known := as_known(error):
        return known.exit_code
    if isinstance(error, SystemExit) and isinstance(error.code, int):  # SIGTERM before the run has started
        return error.code
    return SIGNALLED + 2 if isinstance(error, KeyboardInterrupt) else EXIT_BUG


def _outcome_as_text(outcome: ModelOutcome) -> str:
    if not outcome.reports:
        return f"{outcome.model} was not run"
    counts = f"{outcome.predicted:,} predicted, {outcome.reasons.total():,} rejected, {outcome.pending:,} pending"
    remarks = f" ({describe_state(outcome.day_state)})" if outcome.day_state and outcome.day_state.notes else ""
    longest = outcome.longest
    if longest is None:
        return f"{outcome.model} {counts}{remarks}"
    limit = longest.limit_images_per_second
    possible = f" of {shown_rate(limit)} possible" if limit else ""
    return f"{outcome.model} {counts}, {shown_rate(longest.images_per_second)} images/s{possible}{remarks}"


def _figures(outcome: ModelOutcome) -> dict[str, object]:
    """Return the outcome under the keys of --json."""
    longest = outcome.longest
    return {
        "model": outcome.model,
        "exit_code": outcome.exit_code,
        "selected": outcome.selected,
        "predicted": outcome.predicted,
        "rejected": outcome.reasons.total(),
        "reasons": dict(outcome.reasons),
        "pending": outcome.pending,
        "day_state": outcome.day_state and asdict(outcome.day_state),
        "images_per_second": longest and longest.images_per_second,
        "limit_images_per_second": longest and longest.limit_images_per_second,
    }
