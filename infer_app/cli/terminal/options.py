"""Flags that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="INFER_CONFIG", help="The settings file.  [default: ./infer.toml]"),
]
Date = Annotated[str, typer.Option("--date", "-d", help="2026-11-20, today or yesterday.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else there.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", "-m", help="Name of a model. Repeated: several, images decoded once for all of one recipe."
    ),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="Name of a model.")]
ModelOrVersion = Annotated[
    str | None, typer.Option("--model", "-m", help="Name of a model, or the id of one of its versions.")
]
AllowInt8 = Annotated[
    bool | None,
    typer.Option("--allow-int8/--no-allow-int8", help="auto may take int8.  [default: [run] allow_int8]"),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=0, help="Processes; 0: as many as were measured best here.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Silent on success, for cron.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", help="Of the log on standard error: text, or json, an object a line.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="All of it on a sample, writing nothing: how fast will it be?")]
TraceFile = Annotated[Path | None, typer.Option("--trace", help="Write what each process did when, for Perfetto.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many images.")]
FinishBy = Annotated[str | None, typer.Option("--finish-by", help="Stop cleanly at HH:MM (exit code 75).")]
MaxDuration = Annotated[float | None, typer.Option("--max-duration", min=0, help="Stop cleanly after so many seconds.")]
MaxRejected = Annotated[
    str | None,
    typer.Option("--max-rejected", help="Stop a day with exit code 3 above this: 5% (at least 10) or 25."),
]
Wait = Annotated[
    bool | None, typer.Option("--wait", help="Wait for another run that holds the day, instead of exit code 13.")
]
Lookback = Annotated[int | None, typer.Option("--lookback", min=0, help="Days before it to look at again.")]
Variant = Annotated[str | None, typer.Option("--variant", help="Variant of the model.")]
Executor = Annotated[
    str | None, typer.Option("--executor", help="auto, cpu, cuda: its ring, also without a GPU; or ray.")
]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", help="Of its cluster: auto, host:port, or local for this machine alone.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="auto, cpu or cuda: with cuda a run that has no GPU variant to take ends with 12."),
]
