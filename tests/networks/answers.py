"""What runs in a network's own environment, without infer_app: prepares its files, and answers for photos.

`python answers.py PROGRAM FOLDER PHOTOS`: the program's `prepare`, if it has one, writes into the folder what the build
needs; then `open_program` answers for each photo into the folder's answers.json.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType


def load_program(path: Path) -> ModuleType:
    """Load a file by its path: its name is often that of the package which it imports."""
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(program: str, folder: str, photos: str) -> None:
    module = load_program(Path(program))
    os.chdir(folder)
    sys.path.append(folder)  # heads of the page
    if hasattr(module, "prepare"):
        module.prepare(photos)
    answer = module.open_program()
    answers = {path.name: plain(answer(str(path))) for path in sorted(Path(photos).iterdir())}
    Path("answers.json").write_text(json.dumps(answers))


def plain(value: object) -> object:
    """Return numpy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
