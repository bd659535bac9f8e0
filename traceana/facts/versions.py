"""What differs between engine versions, as data: `versions.toml` beside this module, and version arithmetic.

Versions are compared as PEP 440 says, with one liberty: a development or release-candidate build counts as the release
it leads to (0.20.2rc1.dev249+fork reads the rows of 0.20.2), because that is the code it was built from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from traceana.facts.model import Settings
from traceana.toml_table import toml_table

_LEADING = re.compile(r"\d+(?:\.\d+)+(?:(?:a|b|rc)\d+)?(?:\.?post\d+)?(?:\.?dev\d+)?")


@dataclass(frozen=True, slots=True)
class Override:
    """An environment variable that the engine itself sets.

    `behaviour`: forced (whatever the user set; the value may depend on `when`), default (only when the user set
    nothing) or conditional (forced while `when` holds, else left alone). `when` holds engine arguments and the values
    they must have; `condition` says the whole condition in words, for what `when` cannot say.
    """

    engine: str
    variable: str
    versions: str  # PEP 440 specifiers
    behaviour: str
    value: str
    condition: str
    source: str
    when: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class VersionTables:
    """The tables of `versions.toml`."""

    overrides: tuple[Override, ...]


@cache
def load() -> VersionTables:
    """The tables, read once. Raises KeyError when a row lacks a column."""
    data = toml_table("traceana.facts", "versions.toml")
    return VersionTables(overrides=tuple(_override(row) for row in data["override"]))


def parse_version(text: str) -> Version | None:
    """The version in `text`, forks and decorations tolerated ("v0.20.2rc1.dev249+fork", "2.27.7+cuda13.0"), or None."""
    text = text.strip().removeprefix("v")
    try:
        return Version(text)
    except InvalidVersion:
        leading = _LEADING.match(text)
        return Version(leading[0]) if leading else None


def in_range(version: Version | None, spec: str) -> bool:
    """True when `version` fits the PEP 440 specifiers `spec`; False for None. Raises InvalidSpecifier for a bad `spec`.

    Local parts are ignored and pre-releases count as their release; post-releases count as themselves.
    """
    specifiers = SpecifierSet(spec)
    if version is None:
        return False
    release = ".".join(str(part) for part in version.release)
    return specifiers.contains(Version(f"{release}.post{version.post}" if version.post is not None else release))


def is_fork(version: Version | None) -> bool:
    """True when the version does not name a published release: a local part, a development or a pre-release build."""
    return version is not None and (version.is_prerelease or _names_a_fork(version.local))


def overrides(engine: str, version: Version | str | None) -> tuple[Override, ...]:
    """The environment variables that this version of the engine sets itself; () when the version is not known."""
    parsed = parse_version(version) if isinstance(version, str) else version
    return tuple(row for row in load().overrides if row.engine == engine and in_range(parsed, row.versions))


def holds(override: Override, settings: Settings) -> bool | None:
    """Whether the override's condition holds under these engine arguments; None when an argument is not known."""
    known = [(settings.get(name), wanted) for name, wanted in override.when]
    if any(row is not None and row.parsed != wanted for row, wanted in known):
        return False
    if any(row is None for row, _ in known) or (override.condition and not override.when):
        return None
    return True


def _names_a_fork(local: str | None) -> bool:
    """Local parts like cu128 or cpu name a build of the release, anything else someone's branch."""
    return local is not None and re.fullmatch(r"(cu|cuda|rocm|xpu|cpu)[\d.]*", local) is None


def _override(row: dict[str, Any]) -> Override:
    return Override(
        engine=row["engine"],
        variable=row["variable"],
        versions=row["versions"],
        behaviour=row["behaviour"],
        value=row["value"],
        condition=row["condition"],
        source=row["source"],
        when=tuple(row.get("when", {}).items()),
    )
