"""Completion in the shell: installed by one command, and an answer before a person notices."""

import json
import os
import resource
import subprocess
import sys

from tests.support.projects import INFER

# What typer's script asks, with the modules that answering loaded as the last line.
ASK = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules))))
from infer_app.cli import main
sys.argv = ["infer"]
main()
"""


def complete(words, tmp_path):
    """The proposals, the modules that were loaded, and the CPU seconds it took."""
    asked = {"_INFER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", ASK]
    done = subprocess.run(command, env=os.environ | asked, cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    *proposals, loaded = done.stdout.splitlines()
    return proposals, json.loads(loaded), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_commands_and_options_are_completed_at_once_and_without_torch(tmp_path):
    assert {"build", "check"} <= set(complete("infer model ", tmp_path)[0])
    proposals, loaded, cpu_s = complete("infer run --max", tmp_path)
    assert proposals == ["--max-duration", "--max-rejected"]
    assert not {"torch", "sqlalchemy", "numpy", "PIL"} & set(loaded)
    assert cpu_s < 1.5


def test_it_is_installed_into_the_home_of_whoever_asks(tmp_path):
    """From a shell, which is looked for among the processes above."""
    command = ["bash", "-c", '"$0" --install-completion; exit $?', str(INFER)]
    subprocess.run(command, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, check=True)
    assert "infer.sh" in (tmp_path / ".bashrc").read_text()
    assert "_INFER_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "infer.sh").read_text()
