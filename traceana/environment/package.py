"""The package traceana_instrument as files: where its bootstrap folder is, and a copy of it for an image."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import traceana_instrument
from traceana.errors import TraceanaError

PACKAGE = "traceana_instrument"
#: folder for PYTHONPATH, below the one that holds the package
BOOTSTRAP = f"{PACKAGE}/bootstrap"


def package_folder() -> Path:
    """The folder of the package as it is installed here."""
    return Path(traceana_instrument.__file__).resolve().parent


def bootstrap_folder() -> Path:
    """The folder that goes on a server's PYTHONPATH. Raises TraceanaError where the installation lacks it."""
    folder = package_folder() / "bootstrap"
    if not (folder / "sitecustomize.py").is_file():
        raise TraceanaError(f"{folder}: holds no sitecustomize.py; install traceana anew")
    return folder


def copy_to(target: Path) -> None:
    """Copies the package to `target`/traceana_instrument, whole or not at all.

    Raises TraceanaError when the folder holds something already or cannot be written.
    """
    bootstrap_folder()
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise TraceanaError(f"{target}: exists and is not an empty folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
            work = Path(name) / target.name
            shutil.copytree(package_folder(), work / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            for path in (work, *work.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)  # the image's user must be able to read it
            if target.exists():
                target.rmdir()
            work.replace(target)
    except OSError as error:
        raise TraceanaError(f"{target}: cannot be written: {error.strerror or error}") from error
