"""`known_bugs.toml`: bugs of engine releases that look like a rule's cause, and what they say of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from traceana.facts.model import Facts
from traceana.facts.versions import in_range, is_fork, parse_version
from traceana.rules._wording import words
from traceana.rules.interface import Finding
from traceana.toml_table import toml_table


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A bug of some releases. `versions`: PEP 440, the releases that have it. `fixed`: "" where none of those read is.

    `settings` and `texts` narrow it to runs with these arguments, and to findings that hold one of these texts.
    """

    engine: str
    versions: str
    rules: tuple[str, ...]
    what: str
    fixed: str
    upstream: str
    checked: str
    settings: tuple[tuple[str, object], ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def repair(self) -> str:
        """`upstream` without its details."""
        return self.upstream.partition(";")[0]

    @property
    def needs(self) -> str:
        """The arguments that it needs, as they are written: `enable_hierarchical_cache=True`; "" for none."""
        return ", ".join(f"{name}={value}" for name, value in self.settings)


@cache
def known_bugs() -> tuple[KnownBug, ...]:
    """All rows of the table, in its order. Raises KeyError when a row lacks a column."""
    return tuple(_row(row) for row in toml_table("traceana.rules", "known_bugs.toml")["bug"])


def bugs_of(code: str) -> tuple[KnownBug, ...]:
    """The rows that can explain a finding of this rule."""
    return tuple(bug for bug in known_bugs() if code in bug.rules)


def with_known_bugs(finding: Finding, facts: Facts) -> Finding:
    """The finding with what is known of the release that ran: which bug fits, or that the known ones are fixed in it.

    Unchanged where neither the log nor the form of its lines tells engine and release, or nothing is known.
    """
    release = _release(facts)
    if release is None:
        return finding
    rows = [bug for bug in bugs_of(finding.code) if bug.engine == facts.identity.engine.value]
    rows = [bug for bug in rows if _settings(bug, facts) and _texts(bug, finding)]
    present = [bug for bug in rows if release.within(bug.versions)]
    past = [bug for bug in rows if bug.fixed and release.low is not None and release.low >= Version(bug.fixed)]
    rest = [bug for bug in rows if bug not in present and bug not in past and release.touches(bug.versions)]
    open_ = [bug for bug in rest if not _unsure(bug, facts)]  # neither release nor setting known says too little
    said = [f"You run {bug.engine} {release.words}, in which {_told(bug, facts)}." for bug in present]
    if open_:
        told = "; ".join(f"{_until(bug)} {_told(bug, facts, False)}" for bug in open_)
        said.append(f"The log does not name the release (its lines are of {release.words}): {told}.")
    if past:
        said.append(_past(past, release))
    updates = [f"update {bug.engine} to {bug.fixed} or newer ({bug.repair})" for bug in present if bug.fixed]
    updates += [f"update {bug.engine} if it is older than {bug.fixed} ({bug.repair})" for bug in open_ if bug.fixed]
    why = " ".join([finding.why, *said]).strip()
    return replace(finding, why=why, fix=tuple(dict.fromkeys((*finding.fix, *updates))))


def between_releases(before: Facts, after: Facts) -> tuple[str, ...]:
    """Known bugs that one of two runs' releases has and the other has not, in words; () where nothing is known.

    Bugs that need a setting a run contradicts, or a text, and those that end a run are left out. Of two engines nothing
    is said.
    """
    releases = [_release(facts) for facts in (before, after)]
    engine = before.identity.engine.value
    if engine != after.identity.engine.value or None in releases:
        return ()
    said = []
    for bug in known_bugs():
        speed = not bug.texts and any(code.startswith(_OF_SPEED) for code in bug.rules)
        if bug.engine != engine or not (speed and _settings(bug, before) and _settings(bug, after)):
            continue
        has = [release is not None and release.within(bug.versions) for release in releases]
        lacks = [release is not None and not release.touches(bug.versions) for release in releases]
        if has[0] and lacks[1]:
            said.append(f"no longer in the second: {bug.what} ({bug.repair}, {', '.join(bug.rules)})")
        elif lacks[0] and has[1]:
            said.append(f"only in the second: {bug.what} ({bug.repair}, {', '.join(bug.rules)})")
    return tuple(said)


#: families of rules whose causes change the speed of a run that goes on
_OF_SPEED = ("ACC", "CYC", "GRF", "COM")


@dataclass(frozen=True, slots=True)
class _Release:
    """The release that ran, or the first and last it can be; None: no bound."""

    low: Version | None
    high: Version | None
    words: str
    fork: bool = False

    def within(self, versions: str) -> bool:
        """True when every release it can be has the versions' bug."""
        return self.low is not None and in_range(self.low, versions) and in_range(self.high, versions)

    def touches(self, versions: str) -> bool:
        """True when some release it can be has the bug. Ranges have no holes: an end of one lies in the other."""
        ends = [Version(spec.version) for spec in SpecifierSet(versions)]
        inside = any((self.low is None or end >= self.low) and (self.high is None or end <= self.high) for end in ends)
        return inside or in_range(self.low, versions) or in_range(self.high, versions)


def _release(facts: Facts) -> _Release | None:
    """What the log says of the engine's release: its version, else the range that the form of its lines tells."""
    if facts.identity.engine.value is None:
        return None
    named = facts.identity.version.value
    if named is not None:
        version = parse_version(named)
        if version is None:
            return None
        post = f".post{version.post}" if version.post is not None else ""
        release = Version(".".join(str(part) for part in version.release) + post)
        return _Release(release, release, str(release), is_fork(version))
    words = facts.identity.version_range
    if words is None:
        return None
    ends = [Version(word) for word in words.split() if word[0].isdigit()]
    low = None if words.endswith("or earlier") else ends[0]
    return _Release(low, None if words.endswith("or later") else ends[-1], words)


def _until(bug: KnownBug) -> str:
    if bug.fixed:
        return f"before {bug.fixed}"
    return f"up to {max(Version(spec.version) for spec in SpecifierSet(bug.versions))}, the last one read,"


def _told(bug: KnownBug, facts: Facts, end: bool = True) -> str:
    under = f" (with {bug.needs}, which the log does not show)" if _unsure(bug, facts) else ""
    fixed = (f"; fixed in {bug.fixed}" if bug.fixed else "; not fixed in any release read") if end else ""
    return f"{bug.what}{under}{fixed} ({bug.upstream})"


def _past(past: list[KnownBug], release: _Release) -> str:
    fork = ", if this build has that release's code" if release.fork else ""
    run = f"{past[0].engine} {release.words}"
    if len(past) == 1:
        return f"Fixed in {run}, and so not it{fork}: {past[0].what} ({past[0].repair})."
    names = ", ".join(dict.fromkeys(bug.repair for bug in past))
    return f"Known bugs with this picture that are fixed in {run}, and so are not it{fork}: {names}."


def _unsure(bug: KnownBug, facts: Facts) -> bool:
    return any(facts.settings.get(name) is None for name, _ in bug.settings)


def _settings(bug: KnownBug, facts: Facts) -> bool:
    """Whether no argument contradicts the bug."""
    rows = ((facts.settings.get(name), wanted) for name, wanted in bug.settings)
    return all(row is None or row.parsed == wanted for row, wanted in rows)


def _texts(bug: KnownBug, finding: Finding) -> bool:
    said = words(finding.title, finding.why, *(item.text for item in finding.evidence))
    return not bug.texts or any(text in said for text in bug.texts)


def _row(row: dict[str, Any]) -> KnownBug:
    return KnownBug(
        engine=row["engine"],
        versions=row["versions"],
        rules=tuple(row["rules"]),
        what=row["what"],
        fixed=row["fixed"],
        upstream=row["upstream"],
        checked=row["checked"],
        settings=tuple(row.get("settings", {}).items()),
        texts=tuple(row.get("texts", ())),
    )
