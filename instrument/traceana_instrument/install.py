"""Puts the wrappers in place: now for modules that are loaded, after their import for the others.

Nothing is imported for the sake of wrapping. What a version of an engine does not have is listed, never an error.
"""

from __future__ import annotations

import functools
import importlib.abc
import sys
import threading
from collections.abc import Sequence
from typing import Any

from traceana_instrument import settings, start, wrap
from traceana_instrument.hook import TWIN, Hook
from traceana_instrument.state import State, current


class Installed:
    """The rows of the tables by module, and what became of each that was tried."""

    def __init__(self, state: State, hooks: Sequence[Hook]) -> None:
        self.state = state
        self.rows: dict[str, list[Hook]] = {}
        for hook in hooks:
            if hook.phase != "comm" or state.settings.comm:
                self.rows.setdefault(hook.module, []).append(hook)
        state.first = functools.partial(start.announce, self)
        self.applied: list[Hook] = []
        self.missing: list[tuple[Hook, str]] = []

    def apply(self, module: Any) -> None:
        """Wrap what the module has of its rows. Never raises."""
        # the cycle comes last: it is the outermost wrapper of a method that has two
        rows = sorted(self.rows.get(module.__name__, ()), key=lambda row: (row.phase == "cycle", not row.enders))
        for hook in rows:
            try:
                why = self._wrap(module, hook)
            except Exception as error:  # a class that takes no attributes, a descriptor that raises
                why = f"{type(error).__name__}: {error}"
            if why:
                self.missing.append((hook, why))
            else:
                self.applied.append(hook)
                self.state.engine = self.state.engine or hook.module.partition(".")[0]

    def _wrap(self, module: Any, hook: Hook) -> str:
        owner = vars(module).get(hook.owner)  # a module's own __getattr__ could import what it likes
        # a class that the module only imports has a row of its own where it is defined
        if not isinstance(owner, type) or owner.__module__ != module.__name__ or hook.method not in vars(owner):
            return "not in this version"
        if any(hook.target == other.target and hook.phase == other.phase for other in self.applied_in(hook.module)):
            return TWIN
        method = vars(owner)[hook.method]
        why = wrap.unsuitable(method)
        if why:
            return why
        enders = [(base, name) for name in hook.enders for base in owner.__mro__ if name in vars(base)]
        if hook.enders and not enders:
            return f"no {' or '.join(hook.enders)} to end it"
        made = wrap.wrapped(self.state, hook, method)
        if hook.enders:
            self._wrap_enders(hook, enders)
        setattr(owner, hook.method, made)
        if hook.phase == "cycle":
            self._wrap_init(owner)
        return ""

    def _wrap_enders(self, hook: Hook, enders: list[tuple[type, str]]) -> None:
        for base, name in enders:
            ender = vars(base)[name]
            if wrap.unsuitable(ender) or isinstance(ender, (staticmethod, classmethod)):
                continue
            if hook.until:
                setattr(base, name, wrap.ends_cycle(self.state, ender))
            else:
                setattr(base, name, wrap.ends_part(self.state, hook.phase, ender))

    def _wrap_init(self, owner: type) -> None:
        init = vars(owner).get("__init__")
        if init is None or getattr(init, wrap.MARK, False):
            return

        @functools.wraps(init)
        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            init(this, *args, **kwargs)
            if not self.state.started:
                start.announce(self, this)

        setattr(made, wrap.MARK, True)
        owner.__init__ = made  # type: ignore[misc]

    def applied_in(self, module: str) -> list[Hook]:
        """Rows of a module that were wrapped."""
        return [hook for hook in self.applied if hook.module == module]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds the modules of the tables as the other finders do, and applies their rows once they are executed."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._asking = threading.local()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in self._installed.rows or getattr(self._asking, "on", False):
            return None
        self._asking.on = True
        try:
            spec = next(filter(None, (_ask(finder, name, path, target) for finder in sys.meta_path)), None)
        finally:
            self._asking.on = False
        if spec is not None and spec.loader is not None:
            self._listen(spec.loader)
        return spec

    def _listen(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: Any) -> None:
            execute(module)
            self._installed.apply(module)

        try:
            loader.exec_module = exec_module  # the loader keeps its type: engines and inspect look at it
        except AttributeError:
            return


def _ask(finder: Any, name: str, path: Any, target: Any) -> Any:
    find = getattr(finder, "find_spec", None)
    return None if find is None else find(name, path, target)


#: the one installation of the process, once there is one
_made: list[Installed] = []


def install(hooks: Sequence[Hook] | None = None, wanted: settings.Settings | None = None) -> Installed | None:
    """Install once per process where EAGLE3_PROFILE asks for it; None where it does not. Never raises."""
    if _made:
        return _made[0]
    wanted = settings.read() if wanted is None else wanted
    if not wanted.on:
        return None
    if hooks is None:
        from traceana_instrument import hooks_sglang, hooks_vllm

        hooks = (*hooks_sglang.HOOKS, *hooks_vllm.HOOKS)
    installed = Installed(current(start.with_switch(wanted)), hooks)
    _made.append(installed)
    sys.meta_path.insert(0, _AfterImport(installed))
    for name in list(installed.rows):
        module = sys.modules.get(name)
        if module is not None:
            installed.apply(module)
    return installed
