"""The commands of `infer model`."""

from __future__ import annotations

from typing import Annotated

import typer

from infer_app.cli.terminal.help import App
from infer_app.cli.terminal.model_options import BuildOptions, CheckOptions, JudgeOptions
from infer_app.cli.terminal.options import (
    MODEL_HELP,
    Config,
    Json,
    ModelName,
    ModelToRemove,
    ModelToUse,
    with_options,
)

model_app = App(help="Build, check and list models, and choose the version in use.", no_args_is_help=True)


@model_app.command("build")
@with_options(BuildOptions)
def model_build(options: BuildOptions) -> None:
    """Build a model: its network, recipe, outputs and golden images.

    The model is verified on the golden images before every run.
    """
    from infer_app.cli.model.build import build

    build(options)


@model_app.command("check")
@with_options(CheckOptions)
def model_check(options: CheckOptions) -> None:
    """Compare a model with your own function on your images.

    Prints how often they agree, the worst images and both rates; exit code 2 if they never do.
    """
    from infer_app.cli.model.check import check

    raise typer.Exit(check(options))


@model_app.command("judge")
@with_options(JudgeOptions)
def model_judge(options: JudgeOptions) -> None:
    """Judge half precision and int8 on images of a day.

    Prints how many labels each variant keeps. A run uses only variants that keep enough.
    """
    from infer_app.cli.model.judge_command import judge

    judge(options)


@model_app.command("list")
def model_list(as_json: Json = False, config: Config = None) -> None:
    """List the models by name, the newest version first: which is in use, since when, with how many predictions."""
    from infer_app.cli.model.version_commands import list_models

    list_models(as_json, config)


@model_app.command("use")
def model_use(model: ModelToUse, as_json: Json = False, config: Config = None) -> None:
    """Put a version of a model in use, or go back to an earlier one.

    Runs, the view infer_current_predictions and all commands follow it from then on.
    """
    from infer_app.cli.model.version_commands import use

    use(model, as_json, config)


@model_app.command("remove")
def model_remove(
    model: ModelToRemove,
    force: Annotated[
        bool, typer.Option("--force", help="Also remove the version in use, if it is the only one of its name.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Remove the files of a version of a model; its predictions stay."""
    from infer_app.cli.model.version_commands import remove

    remove(model, force, as_json, config)


@model_app.command("show")
def model_show(name: ModelName, as_json: Json = False, config: Config = None) -> None:
    """Show a model, its variants and what was measured of them.

    With --json the whole manifest is printed.
    """
    from infer_app.cli.model.model import show

    show(name, as_json, config)


@model_app.command("tune")
def model_tune(name: ModelName, config: Config = None) -> None:
    """Measure again how a model runs fastest on this machine.

    Its variants, batch sizes and numbers of processes and threads are tried.
    """
    from infer_app.cli.model.model import tune

    tune(name, config)


@model_app.command("verify")
def model_verify(
    name: Annotated[str | None, typer.Argument(metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: all]")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check the files of a model against their checksums, and its golden images."""
    from infer_app.cli.model.variant_files import verify

    verify(name, as_json, config)
