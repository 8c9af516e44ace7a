"""Notices of how a build, or a change of the version in use, changes the next run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import plain_name, short_name
from infer_app.artifact.models_folder import scan_artifacts
from infer_app.base.printing import printed_options
from infer_app.base.settings.load import load_settings
from infer_app.cli.model.model import has_project, known_in_use


@dataclass(frozen=True, slots=True)
class RunAfterBuild:
    """The version of a model that the next plain run takes, as far as it is known."""

    artifact: Artifact
    model_id: str | None  # None if the database can't be read, or if none of several versions is in use
    is_there: bool
    is_chosen: bool  # False if a run asks first for a version to be put in use
    set_models: tuple[str, ...]  # in the settings, instead of all names
    joined: tuple[str, ...]  # the other names that a plain run runs, if from now on it runs this one too

    @classmethod
    def of(cls, artifact: Artifact, config: Path | None) -> RunAfterBuild:
        name, folder = artifact.manifest.name, artifact.folder.parent.parent
        versions = [one.manifest for one in scan_artifacts(folder)[0]]
        ids = [one.model_id for one in versions if one.name == name]
        in_use = known_in_use(config)
        is_chosen = in_use is None or name in in_use or len(ids) == 1
        model_id = None if in_use is None or not is_chosen else in_use.get(name, ids[0])
        set_models = load_settings(config).model_names if has_project(config) else ()
        others = {one.name for one in versions} - {name}
        joined = () if set_models or name in (in_use or ()) else tuple(sorted(others))
        return cls(artifact, model_id, model_id in ids, is_chosen, set_models, joined)

    @property
    def takes_it(self) -> bool | None:
        """Return whether it is the version that was built; None if that is not known."""
        return None if self.model_id is None else self.model_id == self.artifact.manifest.model_id

    def lines(self) -> Iterator[str]:
        name = self.artifact.manifest.name
        this, other = short_name(name, self.artifact.manifest.model_id), short_name(name, self.model_id or "")
        yield from what_settings_say(name, self.set_models)
        if self.joined and self.is_chosen:
            yield f"a plain `infer run`, as by cron, now runs {name} too, beside {', '.join(self.joined)}"
            yield f"to keep it out, set in infer.toml: [run] models = {json.dumps(self.joined)}"
        if not self.is_chosen:
            yield f"{name} has several versions and none is in use: no run takes one until you choose"
            yield f"put this one in use: {command_line(f'model use {this}')}"
        elif self.model_id is None:
            yield f"the next run of {name} takes this version unless another one is in use: `infer model list` lists it"
        elif self.takes_it:
            yield f"the next run of {name} takes this version"
        elif not self.is_there:
            yield f"the next run of {name} fails: {other}, the version in use, is not in the folder of models"
            yield f"put this one in use: {command_line(f'model use {this}')}"
        else:
            yield f"the next run of {name} still takes {other}; the new version is not in use yet"
            yield f"try it:  {command_line(f'run --date yesterday --lookback 0 --model {this}')}"
            yield f"compare: {command_line(f'compare --date yesterday --models {other} {this}')}"
            yield f"use it:  {command_line(f'model use {this}')}"


def what_settings_say(name: str, set_models: tuple[str, ...]) -> Iterator[str]:
    """Yield a line if a plain `infer run` does not run the version in use of this name."""
    listed = ", ".join(set_models)
    if pinned := [one for one in set_models if plain_name(one) == name and one != name]:
        yield f"the settings pin {pinned[0]}: a plain `infer run` runs that, whatever version is in use"
    elif set_models and name not in set_models:
        runs_it = f"`infer run{printed_options(name)}` does"
        yield f"the settings name {listed}: a plain `infer run` does not run {name}, {runs_it}"


def command_line(words: str) -> str:
    """Return a command that can be run as it is printed."""
    return f"infer {words}{printed_options()}"
