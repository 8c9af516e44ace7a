"""How others hear of `infer run`: a ping, a webhook, a file of metrics. None of it changes how the run ends."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_app import __version__
from infer_app.atomic_file import replace_file
from infer_app.day import Day
from infer_app.errors import EXIT_BUG, SIGNALLED, InferError, Interrupted
from infer_app.notify import BackgroundTask, Ping, post, wait_for
from infer_app.pipeline.stop import Stop
from infer_app.settings.load import LoadedSettings
from infer_app.settings.masks import mask_address
from infer_app.telemetry.log import bind
from infer_app.telemetry.metrics import ModelOutcome, read_samples, render_metrics
from infer_app.telemetry.summary_line import duration

log = logging.getLogger(__name__)

AFTER_S = 5.0  # for all of it, once the run is over
AFTER_SIGNAL_S = 2.0  # whoever sent the signal waits
LOCK_S = 1.0


@dataclass
class RunSession:
    """What is known of a run so far: how it ended, or the error that ended it."""

    date: str | None = None
    models: Sequence[str] = ()
    exit_code: int | None = None
    outcomes: Sequence[ModelOutcome] = ()
    answer: dict[str, Any] = field(default_factory=dict)  # as --json prints it
    line: str = ""  # the same in words
    began: float = field(default_factory=time.monotonic)

    def begins(self, days: Sequence[Day], models: Sequence[str], shown_url: str) -> None:
        """The first line of the log. What is bound here stays, so that an error that ends the run has it too."""
        self.date, self.models = str(days[-1]), models
        bind(date=self.date, model=", ".join(models))
        more = f" and {len(days) - 1} days before" if len(days) > 1 else ""
        told = (__version__, f"{days[-1]}{more}", ", ".join(models), shown_url)
        log.info("infer_app %s begins: %s, model %s, database %s", *told)

    def ended(self, answer: dict[str, Any], outcomes: Sequence[ModelOutcome], exit_code: int) -> None:
        self.answer, self.outcomes, self.exit_code = answer, outcomes, exit_code
        models = "; ".join(map(_in_words, outcomes))
        self.line = f"exit code {exit_code} after {duration(self.seconds)}: {models}"

    def failed(self, error: BaseException) -> None:
        """Of a bug only its name: its text may hold anything."""
        self.exit_code = _exit_code(error)
        told = {"error": type(error).__name__, "hint": ""}
        if isinstance(error, InferError):
            told = {"error": error.message, "hint": error.hint}
        self.answer = told | {"exit_code": self.exit_code, "date": self.date, "models": list(self.models)}
        self.outcomes = [ModelOutcome(model, self.exit_code) for model in self.models]
        self.line = f"exit code {self.exit_code}: {told['error']}"

    def say_how_it_ended(self) -> None:
        """The last line of the log; of an error others tell."""
        if self.exit_code is None or "error" in self.answer:
            return
        level = logging.WARNING if self.exit_code else logging.INFO
        figures = {"exit_code": self.exit_code, "seconds": round(self.seconds, 1)}
        log.log(level, "%s", self.line, extra=figures | {"models": [_figures(one) for one in self.outcomes]})

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@contextmanager
def notifying(loaded: LoadedSettings, notify: bool) -> Iterator[RunSession]:
    """Around a run. `notify`: others hear of it, also of a run that fails before it has begun."""
    one = RunSession()
    url = loaded.ping.url
    ping = Ping(url.get_secret_value()) if url and notify else None
    try:
        one.models = loaded.model_names
        yield one
    except BaseException as error:
        if one.exit_code is None:
            one.failed(error)
        raise
    finally:
        if notify:
            _tell_whatever_happens(loaded, one, ping)
        one.say_how_it_ended()


def _tell_whatever_happens(loaded: LoadedSettings, one: RunSession, ping: Ping | None) -> None:
    try:
        _tell(loaded, one, ping)
    except Interrupted:  # by a second signal
        return
    except Exception:  # the night's work is done: not even a bug in here may make it look failed
        log.warning("not everybody was told", exc_info=True)


def _tell(loaded: LoadedSettings, one: RunSession, ping: Ping | None) -> None:
    """One warning for each that can't be reached."""
    exit_code = EXIT_BUG if one.exit_code is None else one.exit_code
    until = time.monotonic() + (AFTER_SIGNAL_S if exit_code >= SIGNALLED else AFTER_S)
    with Stop() as stop:  # a signal ends the waiting and not the program, whose work is done
        if loaded.metrics.textfile:
            _write_metrics(loaded.resolve(loaded.metrics.textfile), loaded.folder, one, exit_code)
        errands: list[tuple[str, BackgroundTask]] = []
        if ping and loaded.ping.url:
            errands.append((loaded.ping.url.get_secret_value(), ping.end(exit_code, one.line)))
        if loaded.webhook.url:
            url, body = loaded.webhook.url.get_secret_value(), json.dumps(one.answer).encode()
            errands.append((url, BackgroundTask("webhook", lambda: post(url, body, "application/json"))))
        wait_for([errand for _, errand in errands], until, lambda: bool(stop.exit_code))
    for address, errand in errands:
        if errand.problem:
            log.warning("the %s to %s failed: %s", errand.name, mask_address(address), errand.problem)


def _write_metrics(file: Path, project: Path, one: RunSession, exit_code: int) -> None:
    try:
        with _lock(file.parent):
            earlier = {}
            try:
                earlier = read_samples(file.read_text()) if file.is_file() else {}
            except ValueError:
                log.warning("the metrics in %s can't be read: begun anew", file)
            replace_file(file, render_metrics(earlier, project, one.outcomes, exit_code, one.seconds))
    except OSError as error:
        log.warning("no metrics in %s: %s", file, error.strerror or error)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Of two runs that end together neither may lose what the other writes. A file to lock would be left behind."""
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
    if isinstance(error, InferError):
        return error.exit_code
    if isinstance(error, SystemExit) and isinstance(error.code, int):  # of SIGTERM before a run has begun
        return error.code
    return SIGNALLED + 2 if isinstance(error, KeyboardInterrupt) else EXIT_BUG


def _in_words(outcome: ModelOutcome) -> str:
    if not outcome.reports:
        return f"{outcome.model} was not run"
    counts = f"{outcome.predicted:,} predicted, {outcome.reasons.total():,} rejected, {outcome.pending:,} pending"
    longest = outcome.longest
    if longest is None:
        return f"{outcome.model} {counts}"
    limit = longest.limit_images_per_second
    possible = f" of {limit:,.0f} possible" if limit else ""
    return f"{outcome.model} {counts}, {longest.images_per_second:,.0f} images/s{possible}"


def _figures(outcome: ModelOutcome) -> dict[str, Any]:
    """By the names of --json."""
    longest = outcome.longest
    return {
        "model": outcome.model,
        "exit_code": outcome.exit_code,
        "selected": outcome.selected,
        "predicted": outcome.predicted,
        "rejected": outcome.reasons.total(),
        "reasons": dict(outcome.reasons),
        "pending": outcome.pending,
        "images_per_second": longest and longest.images_per_second,
        "limit_images_per_second": longest and longest.limit_images_per_second,
    }
