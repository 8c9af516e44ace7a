"""Imports, in the fork server only, what every worker needs.

Collections of garbage would take a tenth of the import's time. What was imported is left out of later ones: in a worker
they would write to each object, and so copy the memory that it shares.

Importing OpenVINO starts no threads, which would not survive a fork. NumPy's linear algebra would start some, which
keep the cores busy while they wait; a worker has a core for itself.
"""

import gc
import os
from contextlib import suppress
from importlib import import_module

gc.disable()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import_module("infer_app.predict.handlers.cpu_handler")
    with suppress(Exception):  # the worker that needs it reports why
        import_module("infer_app.predict.runtimes.openvino").load_openvino()
    gc.freeze()
finally:
    gc.enable()
