"""`infer doctor`: checks everything a run needs and prints a fix for each failure."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from infer_app.base.errors import InferError, most_severe
from infer_app.base.printing import one_line, with_config
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.model.model import known_in_use
from infer_app.run import machine_checks
from infer_app.run.database_checks import Finding, check_database, check_watched

Check = Callable[[LoadedSettings], Iterator[Finding]]


def examine(
    model: str | None, as_json: bool, config: Path | None, executor: str | None = None, ray_address: str | None = None
) -> int:
    """Print the findings; return the most severe exit code that a run would end with."""
    loaded = load_settings(config, {"run": {"model": model, "executor": executor}, "ray": {"address": ray_address}})
    with redirect_stdout(sys.stderr):  # output of the user's preprocess module must not mix with ours
        findings = [finding for name in CHECKS for finding in _run_check(name, loaded)]
    exit_code = most_severe([finding.exit_code for finding in findings])
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "exit_code": exit_code}))
        return exit_code
    for finding in findings:
        sign = "FAIL" if finding.exit_code else "note" if finding.fix else "ok"
        print(f"{sign:4}  {finding.check}: {one_line(finding.found)}")
        if finding.fix:
            print(f"      fix: {one_line(with_config(finding.fix))}")
    return exit_code


def _run_check(name: str, loaded: LoadedSettings) -> Iterator[Finding]:
    """Yield the findings of a check; an error is one too, so that the other checks are still made."""
    try:
        yield from CHECKS[name](loaded)
    except InferError as error:
        yield Finding(name, error.message, error.hint, error.exit_code)


CHECKS: Mapping[str, Check] = {
    "program": machine_checks.check_program,
    "versions": machine_checks.check_versions,
    "settings": machine_checks.check_settings,
    "decoder": machine_checks.check_decoder,
    "gpu": machine_checks.check_gpu,
    "database": check_database,
    "watch": check_watched,
    "roots": machine_checks.check_roots,
    "map": machine_checks.check_map,
    "remote": machine_checks.check_remote,
    "model": lambda loaded: machine_checks.check_models(loaded, known_in_use(loaded.path)),
    "ray": machine_checks.check_ray,
}
