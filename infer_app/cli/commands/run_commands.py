"""The commands that make a project and run its models."""

from dataclasses import dataclass
from pathlib import Path

from infer_app.cli.terminal.command import (
    REQUIRED,
    Date,
    Executor,
    Limit,
    LogFormat,
    Models,
    RayAddress,
    WithJson,
    Workers,
    argument,
    command,
    flag,
    option,
)
from infer_app.cli.terminal.groups import RUN, app


@command(app, "quickstart", "project.quickstart:make_demo", rich_help_panel=RUN)
class QuickstartOptions:
    """Make a demo project with real photos and run it.

    The photos and the model come from installed packages. Existing files are kept.
    """

    folder: Path = argument("FOLDER", "Where to make the project.", Path("demo"))


@command(app, "init", "project.project:init_project", rich_help_panel=RUN)
class InitOptions:
    """Write a commented infer.toml here; keep an existing one.

    Without a database it is for a folder of photos, whose new images each run registers. Where the first photos state
    when they were taken, that decides their days. With one it lists, commented out, each table that has names of
    pictures: name the columns of yours.
    """

    watch: Path | None = option("FOLDER", "The folder of photos.  [default: photos, which is made]")
    database: str | None = option("URL", "A database that lists the images, and where results go.  [default: none]")
    source: str | None = option(
        "URL", "The database that lists the images, if results go to another.  [default: --database]"
    )


@dataclass(frozen=True, kw_only=True)
class DaysOptions(WithJson):
    """The options that `infer run` and `infer backfill` have in common. None: as in the settings."""

    model: Models = None
    limit: Limit = None
    finish_by: str | None = option("HH:MM", "Stop cleanly at this local time, with exit code 75.")
    max_duration: float | None = option("SECONDS", "Stop cleanly after this time, with exit code 75.", min=0)
    max_rejected: str | None = option(
        "N|N%",
        "Stop a day with exit code 3 above this number or share of rejected images; a share allows at least 10.  "
        "[default: [run] max_rejected, else 5%]",
    )
    precision: str | None = option(
        "full|half|int8",
        "Precision of the model; half: bf16 on a CPU that computes it, fp16 or bf16 on a GPU.  "
        "[default: [run] precision, else full on a CPU and half on a GPU]",
    )
    workers: Workers = None
    wait: bool | None = option(
        None, "Wait for another run that holds the day, instead of ending with exit code 13.", "--wait"
    )
    other_source: bool = flag(
        "--other-source", "Run though the settings name another table, or other files, than in the last run."
    )
    quiet: bool = option(None, "Print nothing on success, for cron.", "--quiet", "-q", default=False)
    verbose: bool = option(None, "Log more.", "--verbose", "-v", default=False)
    log_format: LogFormat = None

    def settings(self) -> dict[str, dict[str, object]]:
        """Return the settings that the options override, by section and key; None overrides nothing."""
        names = ("max_rejected", "precision", "workers", "wait")
        run = {"models": self.model or None} | {name: getattr(self, name) for name in names}
        return {"run": run, "log": {"format": self.log_format}}


@command(app, "run", "run.run:run_and_report", as_record=True, starts_workers=True, rich_help_panel=RUN)
class RunOptions(DaysOptions):
    """Predict the new images of a day and write the results.

    The days before it are checked for late images (--lookback).
    """

    date: Date = "yesterday"
    dry_run: bool = flag("--dry-run", "Run on a sample, write nothing, and forecast how long a run takes.")
    lookback: int | None = option(
        "N", "Number of days before the day to check for late images.  [default: [run] lookback, else 3]", min=0
    )
    executor: Executor = None
    ray_address: RayAddress = None
    device: str | None = option(
        "auto|cpu|cuda",
        "Where the model runs; cuda: end with exit code 12 if no GPU variant can run.  [default: [run] device, else "
        "auto]",
    )
    report: bool = flag("--report", "Write the day's report at the end.")

    def settings(self) -> dict[str, dict[str, object]]:
        common = super().settings()
        run = {"lookback": self.lookback, "executor": self.executor, "device": self.device}
        return common | {"run": common["run"] | run, "ray": {"address": self.ray_address}}


@command(app, "backfill", "run.run:backfill", as_record=True, starts_workers=True, rich_help_panel=RUN)
class BackfillOptions(DaysOptions):
    """Predict the new images of each day of a range of days."""

    first: str = option("DATE", "The first day.", "--from", default=REQUIRED)
    last: str = option("DATE", "The last day.", "--to", default=REQUIRED)

    def settings(self) -> dict[str, dict[str, object]]:
        common = super().settings()
        return common | {"run": common["run"] | {"lookback": 0}}
