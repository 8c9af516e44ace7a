"""The commands of `infer model`."""

from pathlib import Path

from infer_app.cli.terminal.command import (
    MIN_AGREEMENT,
    MODEL_HELP,
    REQUIRED,
    Date,
    Limit,
    ModelName,
    Until,
    WithJson,
    Workers,
    argument,
    command,
    flag,
    option,
)
from infer_app.cli.terminal.groups import model_app


@command(model_app, "check", "model.check:check", as_record=True)
class CheckOptions(WithJson):
    """Compare a model with your own function on your images.

    Prints how often they agree, the worst images and both rates; exit code 2 if more than one and more than 5 % differ,
    4 if the images prove little.
    """

    name: ModelName
    against: str | None = option(
        "MODULE:FUNCTION",
        "Your function: takes a path, returns scores, a label, or the objects of a detector. Of a second network it "
        "takes the picture and a box.  [default: the source's own library]",
    )
    images: Path = option("PATH", "Folder of your images.", default=REQUIRED)
    limit: Limit = None
    workers: Workers = None


@command(model_app, "judge", "model.build:judge", as_record=True)
class JudgeOptions(WithJson):
    """Judge half precision and int8 on images of a day, or of several.

    Prints how many labels each variant keeps. A run uses only variants that keep enough of 300 images or more.
    """

    name: ModelName
    date: Date = "yesterday"
    until: Until = None
    count: int = option(
        "N",
        "Number of images, chosen at random. If it is given, the judgement also replaces one on more images.",
        default=1000,
        min=1,
    )
    min_agreement: str | None = option("SHARE", MIN_AGREEMENT)
    given: frozenset[str] = frozenset()  # names of the options that the user gave


@command(model_app, "list", "model.version_commands:list_models")
class ModelListOptions(WithJson):
    """List the models by name, the newest version first: which is in use, since when, with how many predictions."""


@command(model_app, "use", "model.version_commands:use")
class ModelUseOptions(WithJson):
    """Put a version of a model in use, or go back to an earlier one.

    Runs, the view infer_current_predictions and all commands follow it from then on.
    """

    wanted: str = argument("NAME[@ID]", "Name of a model, which means its newest version, or name@id for another one.")


@command(model_app, "remove", "model.version_commands:remove")
class ModelRemoveOptions(WithJson):
    """Remove the files of a version of a model; its predictions stay."""

    wanted: str = argument("NAME[@ID]", "Name of a model that has one version, or name@id for one of several.")
    force: bool = flag("--force", "Also remove the only version of a name, or end the use of one whose files are gone.")


@command(model_app, "show", "model.model:show")
class ModelShowOptions(WithJson):
    """Show a model and its variants.

    With --json the whole manifest is printed.
    """

    name: ModelName


@command(model_app, "verify", "model.variant_files:verify")
class ModelVerifyOptions(WithJson):
    """Check the files of a model against their checksums, and its golden images."""

    name: str | None = argument("NAME[@ID]", f"{MODEL_HELP}  [default: all]", None)
