"""Imports, in the fork server only, what every worker needs.

Collections of garbage would take a tenth of the import's time. What was imported is left out of later ones: in a worker
they would write to each object, and so copy 40 MB of the memory that it shares.
"""

import gc
from importlib import import_module

gc.disable()
try:
    import_module("infer_app.handlers.cpu_handler")
    gc.freeze()
finally:
    gc.enable()
