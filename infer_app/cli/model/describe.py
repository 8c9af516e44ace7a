"""`infer model describe`: write a model file for a source."""

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path

from infer_app.artifact.model_file import describe_values, read_assignments
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.build.describe_source import describe_source
from infer_app.build.network.model_source import find_source
from infer_app.cli.commands.build_command import DescribeOptions


def describe(options: DescribeOptions) -> None:
    """Write what the source says about itself to a new file, and print what is left to state; or print it itself."""
    values = {"source": options.source, "weights": options.weights, **read_assignments(options.set or ())}
    stated = describe_values({key: value for key, value in values.items() if value is not None})
    with redirect_stdout(sys.stderr):  # output of a library must not mix with ours
        facts = find_source(stated.source, stated.weights).facts(stated.output_name)
    text, blanks = describe_source(stated, facts, options.to.parent if options.to else Path())
    if options.to is None:
        print(text, end="")
        return
    with (
        os_errors_as(UsageError, f"can't write {options.to}", "name a file that is not there yet, in a folder that is"),
        options.to.open("x", encoding="utf-8") as file,
    ):
        file.write(text)
    print(f"wrote {options.to}" + (f"; left blank: {', '.join(blanks)}" if blanks else ""))
    file_name = shlex.quote(str(options.to))
    print(f"{'fill them in, then' if blanks else 'next:'} `infer model build {file_name}`")
