"""Every method that is wrapped exists where its table says, and nowhere else: proven against released wheels.

methods.json was read out of the wheels by build_methods.py. With TRACEANA_WHEELS set to a folder of wheels the file is
made again and compared.
"""

import json
import os
from pathlib import Path

import pytest

from tests.instrument_cli import build_methods
from traceana.environment.engine_source import methods_of
from traceana.environment.hooks import applied, claims, tables
from traceana_instrument.hook import Hook

FOUND = json.loads(build_methods.TABLE.read_text())
TABLES = tables()
ROWS = [(engine, hook) for engine, table in TABLES.items() for hook in table.HOOKS]
PHASES = {"cycle", "draft", "verify", "re_extend", "comm", "count"}


def releases_with(engine: str, hook: Hook) -> set[str]:
    bits = FOUND[engine]["rows"][build_methods.row_name(hook)]
    return {version for version, bit in zip(FOUND[engine]["versions"], bits, strict=True) if bit == "1"}


@pytest.mark.parametrize(("engine", "hook"), ROWS, ids=lambda v: v if isinstance(v, str) else build_methods.row_name(v))
def test_a_row_applies_to_exactly_the_releases_it_claims(engine: str, hook: Hook) -> None:
    claimed = {version for version in FOUND[engine]["versions"] if claims(hook.versions, version)}
    assert claimed, f"{hook.versions} holds no release that was read"
    assert releases_with(engine, hook) == claimed


@pytest.mark.parametrize("engine", TABLES)
def test_the_releases_that_were_read_are_those_the_table_names(engine: str) -> None:
    versions = FOUND[engine]["versions"]
    assert len(versions) >= 30
    assert (versions[0], versions[-1]) == TABLES[engine].READ


@pytest.mark.parametrize("engine", TABLES)
def test_no_row_stands_twice_and_every_row_has_a_known_phase(engine: str) -> None:
    rows = TABLES[engine].HOOKS
    assert len({build_methods.row_name(hook) for hook in rows}) == len(rows)
    assert {hook.phase for hook in rows} <= PHASES
    assert all(hook.module.startswith(f"{engine}.") and hook.target.count(".") == 1 for hook in rows)


def test_every_sglang_release_has_all_phases_of_its_eagle_workers() -> None:
    for version in FOUND["sglang"]["versions"]:
        eagle = [hook for engine, hook in ROWS if engine == "sglang" and "EAGLE3" in hook.methods]
        phases = {hook.phase for hook in eagle if version in releases_with("sglang", hook)}
        assert phases == {"cycle", "draft", "verify", "re_extend"}, version


def test_every_vllm_release_has_cycle_draft_and_verify_and_re_extend_since_0_17() -> None:
    for version in FOUND["vllm"]["versions"]:
        phases = {hook.phase for engine, hook in ROWS if engine == "vllm" and version in releases_with(engine, hook)}
        assert phases >= {"cycle", "draft", "verify"}, version
        assert ("re_extend" in phases) is bool(claims("0.17.0..", version)), version


@pytest.mark.parametrize(
    ("versions", "version", "inside"),
    [
        ("0.4.6..0.5.12", "0.5.12", True),
        ("0.4.6..0.5.12", "0.5.12.post1", False),
        ("0.5.3.post3..", "0.5.3", False),
        ("0.5.3.post3..", "0.5.3.post3", True),
        ("0.5.3.post3..", "0.5.10", True),
        ("..0.9.1", "0.10.0", False),
        ("0.4.6, 0.5.1..0.5.2", "0.5.1", True),
        ("0.5.3", "0.5.3.post1", False),
        ("0.20.2..", "0.20.2rc1.dev249+gfork", True),
        ("0.12.0..", "v0.12", True),
        ("0.4.6..", "unknown", None),
        ("0.4.6..", "", None),
    ],
)
def test_version_ranges_compare_as_releases_do(versions: str, version: str, inside: bool | None) -> None:
    assert claims(versions, version) is inside


def test_methods_are_found_in_class_bodies_only_and_bad_source_has_none() -> None:
    source = (
        "class A:\n    def draft(self): ...\n    async def verify(self): ...\nclass B(A):\n    pass\ndef run(): ...\n"
    )
    assert methods_of(source) == {"": {"run"}, "A": {"draft", "verify"}, "B": set()}
    assert methods_of("def broken(:") == {}
    assert methods_of("\0") == {}


def test_a_row_with_an_ender_replaces_its_twin_only_where_the_ender_exists() -> None:
    twin = Hook("m", "Runner.execute", "cycle", "")
    longer = twin._replace(until="sample")
    assert applied((longer, twin), lambda _: {"Runner": frozenset({"execute"})}) == {twin}
    assert applied((longer, twin), lambda _: {"Runner": frozenset({"execute", "sample"})}) == {longer}
    assert applied((longer, twin), lambda _: None) == set()


@pytest.mark.skipif("TRACEANA_WHEELS" not in os.environ, reason="TRACEANA_WHEELS names no folder with wheels")
def test_the_checked_in_file_is_what_the_wheels_say() -> None:
    assert build_methods.table(Path(os.environ["TRACEANA_WHEELS"])) == FOUND
