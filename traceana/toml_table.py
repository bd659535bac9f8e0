"""Tables of facts that are kept as TOML beside the code that reads them."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def toml_table(package: str, name: str) -> dict[str, Any]:
    """The TOML file `name` inside `package`, e.g. `toml_table("traceana.facts", "versions.toml")`."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
