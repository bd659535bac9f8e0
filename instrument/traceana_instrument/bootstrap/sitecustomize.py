"""Put this folder on PYTHONPATH and every Python process below starts with the timers, if EAGLE3_PROFILE is set.

A sitecustomize of the user's own is run too, as if this one were not there. Plain syntax: any Python may read it.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_timers():
    # the package is loaded by its path: its neighbours in site-packages must not appear in the server
    import importlib.util

    if "traceana_instrument" not in sys.modules:
        folder = os.path.dirname(_HERE)
        spec = importlib.util.spec_from_file_location(
            "traceana_instrument", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules["traceana_instrument"] = module
        spec.loader.exec_module(module)
    from traceana_instrument.plugin import register

    register()


def _run_users_own():
    import importlib.machinery
    import importlib.util

    rest = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("EAGLE3_PROFILE", "") not in ("", "0") and sys.version_info >= (3, 9):
    try:
        _load_timers()
    except Exception as error:
        sys.stderr.write("EAGLE3_PROFILE_NOTE timers are not installed: %r\n" % (error,))

_run_users_own()
