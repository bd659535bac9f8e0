"""Packages that SGLang imports and a CPU cannot have: any attribute of them is a class that does nothing."""

import importlib.abc
import importlib.machinery
import sys
import types

PACKAGES = ("torchvision", "sgl_kernel", "flashinfer")


class _AnyType(type):
    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Any

    def __or__(cls, other: object) -> object:
        return cls

    __ror__ = __or__


class Any(metaclass=_AnyType):
    """Callable, subscriptable, empty; as a decorator it gives the function back."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> object:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Any()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Any()

    def __class_getitem__(cls, key: object) -> object:
        return cls

    def __iter__(self) -> object:
        return iter(())


class _Module(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Any


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stubbed packages and everything below them."""

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        if name.partition(".")[0] in PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: object) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__version__ = "99.0.0"


sys.meta_path.insert(0, Finder())
