"""Put this folder on PYTHONPATH and every Python process below starts with the timers, if EAGLE3_PROFILE is set.

A sitecustomize of the user's own is run too, as if this one were not there. Plain syntax: any Python may read it.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_timers():
    # the package's own folder is on the path for this one import only: its neighbours in site-packages must not appear
    # in the server, and what belongs to the package is found by the package's own path from then on
    folder = os.path.dirname(os.path.dirname(_HERE))
    sys.path.insert(0, folder)
    try:
        import traceana_instrument  # noqa: F401
    finally:
        sys.path.remove(folder)
    from traceana_instrument.plugin import wait_for_engine

    wait_for_engine()


def _run_users_own():
    # asked for again without this folder on the path; importlib.util would cost each process more than the import
    mine = sys.modules.pop("sitecustomize", None)
    here = [(place, path) for place, path in enumerate(sys.path) if os.path.abspath(path or ".") == _HERE]
    for _, path in here:
        sys.path.remove(path)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine
    finally:
        for place, path in here:
            sys.path.insert(place, path)


if os.environ.get("EAGLE3_PROFILE", "") not in ("", "0") and sys.version_info >= (3, 9):
    try:
        _load_timers()
    except Exception as error:
        sys.stderr.write("EAGLE3_PROFILE_NOTE timers are not installed: %r\n" % (error,))

_run_users_own()
