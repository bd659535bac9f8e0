"""NVTX ranges and EAGLE3_PROFILE timers for a live server.

This package imports none of the others and nothing but the standard library, and importing it does nothing: the timers
are put in place by `plugin.register` (an entry point of both engines) or by `bootstrap/sitecustomize.py`.
"""
