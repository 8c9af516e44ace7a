"""The commands that check a project, repair it, and register images."""

from pathlib import Path
from typing import Annotated

from infer_app.cli.terminal.command import (
    Executor,
    Model,
    ModelOrVersion,
    RayAddress,
    WithConfig,
    WithJson,
    any_date,
    argument,
    command,
    flag,
    option,
)
from infer_app.cli.terminal.groups import MAINTAIN, app, cameras_app, config_app, db_app, images_app


@command(app, "doctor", "project.doctor:examine", rich_help_panel=MAINTAIN)
class DoctorOptions(WithJson):
    """Check everything a run needs; print a fix for each failure."""

    model: Model = None
    executor: Executor = None
    ray_address: RayAddress = None


@command(app, "retry", "look.retry_commands:retry", as_record=True, rich_help_panel=MAINTAIN)
class RetryOptions(WithJson):
    """Make rejected images, or replaced ones, pending again.

    By day, this removes the rejections; by --image and --replaced also the predictions of the models that a run uses.
    It prints the command that predicts the images again.
    """

    image: list[str] | None = option(
        "ID", "Only this image, which may also have a prediction, of any day; may be repeated.", "--image", "-i"
    )
    replaced: bool = flag("--replaced", "The images that `infer list --state changed` lists, of any day.")
    date: Annotated[str | None, any_date("yesterday; with --image or --replaced any")] = None
    model: ModelOrVersion = None
    reason: list[str] | None = option(
        "REASON", "Only images rejected for this reason; may be repeated.  [default: all]"
    )


@command(app, "forget", "project.forget:forget_chosen", as_record=True, rich_help_panel=MAINTAIN)
class ForgetOptions(WithJson):
    """Delete results of gone pictures, a model or older days.

    It says how much it deletes for good, and asks before. What it forgot is not predicted again by itself. It can be
    repeated after it was interrupted.
    """

    missing: bool = flag("--missing", "Those of pictures whose file is gone, or that your table lists no more.")
    model: str | None = option("NAME", "Those of all versions of a model, or with NAME@ID of one.")
    before: str | None = option("DATE", "Those of all days before this one.")
    even_most: bool = flag("--even-most", "Even if it is most of what there is, or a folder holds no image any more.")
    to: Path | None = option("FILE", "Keep what is deleted as JSON lines, a row of a table each, in a new file.")
    yes: bool = flag("--yes", "Don't ask.")


@command(cameras_app, "list", "project.camera_commands:list_cameras")
class CamerasListOptions(WithJson):
    """List the cameras with their first and last image, and what is wrong with their clocks."""


@command(cameras_app, "set", "project.camera_commands:set_table")
class CamerasSetOptions(WithConfig):
    """Set facts of all cameras: where each stood, how wrong its clock was, whether it is retired.

    A shift corrects the times that are shown and exported and those that events are made of, never what is stored.
    """

    table: Path = argument(
        "FILE", "A CSV file: camera, from, to, shift, latitude, longitude, retired, location_id, location_name."
    )


@command(cameras_app, "update", "project.camera_commands:update")
class CamerasUpdateOptions(WithConfig):
    """Look again which camera took each picture, and when, without predicting anything again.

    It is for pictures that were predicted before cameras were asked for, and for a source that names others now. It can
    be stopped, and goes on where it was.
    """


@command(images_app, "add", "project.project:add")
class ImagesAddOptions(WithConfig):
    """Register images by file, folder or URL; safe to repeat.

    Their folders and places are added to the locations that may be read.
    """

    paths: list[str] = argument(
        "PATH_OR_URL", "Files, folders, s3://bucket/folder/ (also gs://, az://) and https:// addresses of images."
    )
    date: str | None = option("DATE", "The day the images belong to.  [default: now]", "--date", "-d")


@command(db_app, "upgrade", "project.project:upgrade")
class UpgradeOptions(WithConfig):
    """Create infer_app's tables, or bring them up to date."""


@command(db_app, "join", "project.project:join_project")
class JoinOptions(WithConfig):
    """Say that these settings are of the project whose database they name, as on a second machine."""


@command(config_app, "show", "project.project:show_config")
class ShowConfigOptions(WithJson):
    """Show the settings in force; passwords are masked."""

    with_origin: bool = flag("--origin", "Show where each value comes from.")
