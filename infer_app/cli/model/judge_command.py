"""`infer model judge`: how many labels or objects the variants that round keep on the images of a day."""

import json
import random
from itertools import chain

from infer_app.cli.commands.model_commands import JudgeOptions
from infer_app.cli.model.build import parse_share
from infer_app.cli.model.model import find_model, print_progress
from infer_app.cli.model.variant_tables import show_variants
from infer_app.database.project_database import open_project_database, read_limits
from infer_app.day import Day
from infer_app.errors import UsageError
from infer_app.models.artifact.artifact import open_artifact
from infer_app.models.building.judge_variants import judge_variants
from infer_app.models.verification.agreement import find_min_agreement
from infer_app.plurals import counted
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.workers.isolated_call import run_in_process

ANY_MODEL = ""  # no model has this id, so that every image of a day is new for it


def judge(options: JudgeOptions) -> None:
    """Judge every variant that can run here, record the result with the model, and print it."""
    loaded = load_settings(options.config)
    artifact = find_model(options.name, options.config)
    if artifact.manifest.crop:
        raise UsageError(
            f"{artifact.manifest.name} is a second network: its pictures are objects, not the images of a day",
            "build it with --calibrate FOLDER of crops, which builds int8 and judges half precision on them",
        )
    min_agreement = find_min_agreement(artifact.manifest.output, parse_share(options.min_agreement))
    day = loaded.day(options.date)
    locations = _sample(loaded, day, options.count)
    if not locations:
        raise UsageError(f"there are no images on {day}", "name another day with --date")
    keep_better = "count" not in options.given
    judged = run_in_process(judge_variants, artifact.folder, read_limits(loaded), locations, min_agreement, keep_better)
    for variant, one in judged.items():
        if one.parity.num_images > one.num_images:
            kept, count = counted(one.parity.num_images, "image"), one.num_images
            print_progress(f"{variant}: its judgement on {kept} is kept; --count {count} replaces it by this one")
    if options.as_json:
        found = {name: one.parity.to_json() | {"meets_bar": one.meets_bar} for name, one in judged.items()}
        print(json.dumps({"min_agreement": min_agreement, "variants": found}))
        return
    show_variants(open_artifact(artifact.folder).manifest)


def _sample(loaded: LoadedSettings, day: Day, count: int) -> list[str]:
    """Return the locations of up to `count` images of the day, at random; the same ones at each call."""
    chooser, chosen = random.Random(0), list[str]()
    with open_project_database(loaded, read_only=True) as project:
        for number, new in enumerate(chain.from_iterable(project.source.select_pages(day, ANY_MODEL))):
            if number < count:  # Algorithm R of Vitter, 1985
                chosen.append(new.ref.location)
            elif (place := chooser.randrange(number + 1)) < count:
                chosen[place] = new.ref.location
    return chosen
