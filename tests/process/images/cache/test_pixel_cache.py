import subprocess
import sys


def test_a_cache_loads_neither_torch_nor_decoders():
    script = (
        "import sys, infer_app.images.cache.pixel_cache, infer_app.cli.project.cache; "
        "print({'torch', 'PIL'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
