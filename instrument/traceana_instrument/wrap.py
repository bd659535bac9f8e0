"""Wrappers: one kind per kind of hook. Each first asks whether the timers are on, and none ever changes what the
engine's method gets, returns or raises. The same guards are written out in each: a shared helper would be one more call
inside every call of the engine.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from traceana_instrument.hook import PHASES, Hook
from traceana_instrument.readers import CONDITIONS, READERS, Condition, Reader
from traceana_instrument.state import State

MARK = "__traceana__"

Method = Callable[..., Any]


def unsuitable(method: Any) -> str:
    """Why a class attribute cannot be timed; "" where it can."""
    if isinstance(method, (staticmethod, classmethod)):
        method = method.__func__
    if isinstance(method, property) or not callable(method):
        return "not a method"
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        return "a coroutine: other work runs inside it"
    if inspect.isgeneratorfunction(method):
        return "a generator: it runs after it has returned"
    return ""


def wrapped(state: State, hook: Hook, method: Any) -> Any:
    """The class attribute with timers around it, of the same kind (plain, static or class method)."""
    if isinstance(method, (staticmethod, classmethod)):
        return type(method)(_plain(state, hook, method.__func__))
    return _plain(state, hook, method)


def _plain(state: State, hook: Hook, method: Method) -> Method:
    when = CONDITIONS[hook.when] if hook.when else None
    reader = READERS[hook.read] if hook.read else None
    if hook.phase == "cycle":
        made = _cycle(state, method, reader, bool(hook.until))
    elif hook.phase == "count":
        assert reader is not None
        made = _count(state, method, reader)
    elif hook.phase == "comm":
        op = hook.method.strip("_").removesuffix("_out_place").removesuffix("_in_place")
        made = _comm(state, method, op, reader)
    else:
        made = _part(state, method, hook, when, reader)
    return _marked(made, method)


def _marked(made: Method, method: Method) -> Method:
    functools.update_wrapper(made, method)
    setattr(made, MARK, True)
    return made


def _cycle(state: State, method: Method, reader: Reader | None, held: bool) -> Method:
    def cycle(*args: Any, **kwargs: Any) -> Any:
        if not state.on:
            return method(*args, **kwargs)
        recorder = state.recorder()
        try:
            begun = recorder.begin()
        except Exception as error:
            state.fault(error)
            recorder.drop()
            begun = False
        if not begun:
            return method(*args, **kwargs)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            recorder.drop()
            raise
        try:
            facts = None if reader is None else reader(args, kwargs, result, recorder)
            if not held or facts is None:
                recorder.end(facts)
            else:
                recorder.facts, recorder.inside = facts, False
            if not state.started:
                state.first(args[0] if args else None)
        except Exception as error:
            state.fault(error)
            recorder.drop()
        return result

    return cycle


def ends_cycle(state: State, method: Method) -> Method:
    """The method whose return ends a cycle that another call began."""

    def ending(*args: Any, **kwargs: Any) -> Any:
        if not state.on:
            return method(*args, **kwargs)
        recorder = state.recorder()
        if recorder.facts is None:
            return method(*args, **kwargs)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            recorder.drop()
            raise
        try:
            recorder.end(recorder.facts)
        except Exception as error:
            state.fault(error)
            recorder.drop()
        return result

    return _marked(ending, method)


def _part(state: State, method: Method, hook: Hook, when: Condition | None, reader: Reader | None) -> Method:
    phase, name, held, alone = PHASES.index(hook.phase), hook.phase, bool(hook.before), hook.when == "draft_runner"

    def part(*args: Any, **kwargs: Any) -> Any:
        if not state.on:
            return method(*args, **kwargs)
        recorder = state.recorder()
        if recorder.cycle is None:
            return method(*args, **kwargs)
        span = None
        try:
            if when is None or when(args, kwargs):
                span = recorder.enter(phase, name, held=held, only_alone=alone)
        except Exception as error:
            state.fault(error)
            recorder.drop()
        if span is None:
            return method(*args, **kwargs)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            recorder.drop()
            raise
        try:
            if not held:
                recorder.leave(span)
            if reader is not None:
                _accept(state, reader(args, kwargs, result, recorder))
        except Exception as error:
            state.fault(error)
            recorder.drop()
        return result

    return part


def ends_part(state: State, phase: str, method: Method) -> Method:
    """A method whose call ends a part that outlived its own call."""
    number = PHASES.index(phase)

    def ending(*args: Any, **kwargs: Any) -> Any:
        if state.on:
            recorder = state.recorder()
            try:
                if recorder.cycle is not None:
                    recorder.close_held(number)
            except Exception as error:
                state.fault(error)
                recorder.drop()
        return method(*args, **kwargs)

    return _marked(ending, method)


def _count(state: State, method: Method, reader: Reader) -> Method:
    def count(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if state.on:
            try:
                _accept(state, reader(args, kwargs, result, state.recorder()))
            except Exception as error:
                state.fault(error)
        return result

    return count


def _accept(state: State, counted: Any) -> None:
    if counted is not None:
        source, requests, tokens, lengths = counted
        state.interval.accept(source, requests, tokens, lengths)


def _comm(state: State, method: Method, op: str, reader: Reader | None) -> Method:
    # torch.compile folds this to True while it traces and never looks at the rest
    compiling = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling", bool)

    def comm(*args: Any, **kwargs: Any) -> Any:
        if compiling() or not state.on:
            return method(*args, **kwargs)
        recorder = state.recorder()
        try:
            token = None if recorder.cycle is None else recorder.enter_comm()
        except Exception as error:
            state.fault(error)
            recorder.drop()
            token = None
        if token is None:
            return method(*args, **kwargs)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            recorder.drop()
            raise
        try:
            recorder.leave_comm(token, op, 0 if reader is None else reader(args, kwargs, result, recorder))
        except Exception as error:
            state.fault(error)
            recorder.drop()
        return result

    return comm
