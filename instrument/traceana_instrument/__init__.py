"""NVTX ranges and EAGLE3_PROFILE timers for a live server. Nothing here yet but the name.

This package imports none of the others and nothing heavier than the standard library.
"""
