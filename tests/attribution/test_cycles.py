"""Cycles and phases: from our ranges, from engines' annotations, from nothing but graph replays."""

import polars as pl
import pytest

from tests.attribution.builder import Process, Tables, tables
from traceana.attribution.cycles import cycles_of_replays, cycles_of_scopes
from traceana.attribution.ledger import build_ledger
from traceana.attribution.periods import find_period
from traceana.attribution.scopes import number_cycles, scopes_by_name, scopes_of_ranges


def roles_of(trace: Tables, **roles: str) -> pl.DataFrame:
    """`name` (spaces as underscores) -> role, batch 8, tokens 32."""
    wanted = {name.replace("_", " "): role for name, role in roles.items()}
    rows = [(f, i, wanted[n], 8, 32) for f, i, n in trace.names.iter_rows() if n in wanted]
    schema = {"file_id": pl.Int32, "name_id": pl.Int32, "role": pl.String, "batch": pl.Int64, "tokens": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def scopes_in(process: Process, **roles: str) -> pl.DataFrame:
    trace = tables(process)
    return scopes_of_ranges(trace.ranges, roles_of(trace, **roles))


def listed(numbered: pl.DataFrame) -> list[tuple[int | None, str, int]]:
    return numbered.select("cycle", "phase", "host_start_ns").rows()


def test_engine_annotations_number_drafts_with_the_verify_that_follows() -> None:
    """SGLang's order, an inner forward inside the draft extend, a thread without steps."""
    process = Process()
    for at in (0, 100, 200):
        process.range("step draft", at, at + 10, domain=None, kind="annotation")
        process.range("step draft", at + 12, at + 20, domain=None, kind="annotation")
        process.range("step verify", at + 20, at + 60, domain=None, kind="annotation")
        process.range("extend", at + 60, at + 80, domain=None, kind="annotation")
        process.range("step draft", at + 65, at + 75, domain=None, kind="annotation")
    process.range("step draft", 300, 310, domain=None, kind="annotation")  # its verify was not captured
    found = number_cycles(scopes_in(process, step_draft="draft", step_verify="verify", extend="re_extend"))
    one = [(c, p, s - 100 * c) for c, p, s in listed(found)]
    assert one == [
        (c, p, s)
        for c in range(3)
        for p, s in (("draft", 0), ("cycle", 0), ("draft", 12), ("verify", 20), ("re_extend", 60))
    ]
    assert found.filter(phase="cycle").select("host_end_ns", "batch", "tokens").row(0) == (80, 8, 32)


def test_a_prefill_ends_the_cycle_before_it_and_is_in_none() -> None:
    process = Process()
    for name, start, end in (
        ("verify", 0, 10), ("extend", 10, 20), ("prefill", 20, 40), ("extend", 40, 45), ("draft", 50, 55), ("verify", 55, 70),
    ):  # fmt: skip
        process.range(name, start, end)
    found = number_cycles(scopes_in(process, verify="verify", extend="re_extend", prefill="prefill", draft="draft"))
    assert sorted(listed(found.filter(pl.col("cycle").is_not_null()))) == [
        (0, "cycle", 0), (0, "re_extend", 10), (0, "verify", 0), (1, "cycle", 50), (1, "draft", 50), (1, "verify", 55),
    ]  # fmt: skip


def test_forward_is_the_verify_where_a_thread_drafts_and_no_name_says_so() -> None:
    process = Process()
    for at in (0, 100):
        process.range("forward", at, at + 50)
        process.range("draft", at + 60, at + 80)
    found = number_cycles(scopes_in(process, forward="step", draft="draft"))
    assert found.filter(phase="verify")["provenance"].to_list() == ["derived", "derived"]
    assert number_cycles(scopes_in(process, forward="step")).filter(phase="forward").height == 2


def test_scheduler_rounds_bound_cycles_unless_they_hold_a_prefill() -> None:
    process = Process()
    for at in (0, 100, 200):
        process.range("run batch", at, at + 90)
        process.range("prefill" if at == 100 else "verify", at + 10, at + 50)
    process.range("run batch", 300, 390)  # nothing of interest inside
    found = number_cycles(scopes_in(process, run_batch="cycle", prefill="prefill", verify="verify"))
    whole = found.filter(phase="cycle")
    assert whole["host_start_ns"].to_list() == [0, 200] and whole["cycle"].to_list() == [0, 1]
    assert whole["host_end_ns"].to_list() == [90, 290]


def test_ranges_of_our_instrumentation_are_found_with_and_without_a_domain() -> None:
    for domain in ("traceana", None):
        process = Process()
        process.range("cycle", 0, 90, domain=domain)
        process.range("verify", 10, 50, domain=domain)
        trace = tables(process)
        assert number_cycles(scopes_by_name(trace.ranges, trace.names)).height == 2
    process = Process()
    process.range("draft", 0, 90, domain=None)  # an engine's own, not ours
    trace = tables(process)
    assert scopes_by_name(trace.ranges, trace.names).height == 0


def one_cycle(host_ahead: int) -> Tables:
    """A draft and a verify of one kernel each; the host runs `host_ahead` before the device."""
    process = Process()
    for at in (1_000, 2_000):
        host = at - host_ahead
        process.range("draft", host, host + 100)
        process.range("verify", host + 150, host + 300)
        process.kernel("gemm", at + 40, at + 200, process.call(host + 10, host + 30))
        process.kernel("gemm", at + 250, at + 700, process.call(host + 160, host + 200))
    return tables(process)


def test_a_phase_owns_the_idle_time_in_which_the_host_prepared_it() -> None:
    trace = one_cycle(0)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    first = cycles.filter(cycle=0)
    spans = {row["phase"]: (row["window_start_ns"], row["window_end_ns"]) for row in first.iter_rows(named=True)}
    assert spans["draft"] == (1_000, 1_200)  # from the host range's begin, when the device had nothing to do
    assert spans["verify"] == (1_200, 1_700)  # from the end of the draft's kernel: its range had begun by then
    assert spans["cycle"] == (1_000, 2_000)  # to the begin of the next
    gpu = {row["phase"]: (row["gpu_start_ns"], row["gpu_end_ns"]) for row in first.iter_rows(named=True)}
    assert gpu["draft"] == (1_040, 1_200) and gpu["verify"] == (1_250, 1_700)


def test_a_host_that_runs_ahead_leaves_only_device_time_to_the_phases() -> None:
    trace = one_cycle(900)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    second = cycles.filter(cycle=1, phase="draft").row(0, named=True)
    assert (second["window_start_ns"], second["window_end_ns"]) == (1_700, 2_200)
    rows = build_ledger(cycles, trace.ops).rows.filter(cycle=1, phase="draft")
    assert rows["launch_gap"].item() == 0 and rows["other_idle"].item() == 340  # 1,700 ... 2,040: launched long before


def test_a_pause_between_two_cycles_belongs_to_none() -> None:
    process = Process()
    for at in (0, 1_000, 2_000, 90_000, 91_000):
        process.range("verify", at, at + 100)
        process.kernel("gemm", at + 50, at + 800, process.call(at + 10, at + 20))
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops).filter(
        phase="cycle"
    )
    assert (cycles["window_end_ns"] - cycles["window_start_ns"]).to_list() == [1_000, 1_000, 800, 1_000, 800]


def test_a_prefill_on_the_device_ends_the_window_of_the_cycle_before_it() -> None:
    process = Process()
    for at in (0, 1_000, 2_000, 3_000):
        process.range("verify", at, at + 100)
        process.kernel("gemm", at + 50, at + 500, process.call(at + 10, at + 20))
    process.range("prefill", 2_600, 2_700)
    process.kernel("gemm", 2_650, 2_900, process.call(2_610, 2_620))
    trace = tables(process)
    scopes = scopes_of_ranges(trace.ranges, roles_of(trace, verify="verify", prefill="prefill"))
    cycles = cycles_of_scopes(scopes, trace.launches, trace.ops).filter(phase="cycle")
    assert cycles["window_end_ns"].to_list() == [1_000, 2_000, 2_600, 3_500]


def test_a_phase_that_launches_nothing_still_owns_the_idle_time_it_took() -> None:
    """n-gram drafting on the host: the device waits for it."""
    process = Process()
    for at in (0, 1_000, 2_000):
        process.range("draft", at, at + 400)
        process.range("verify", at + 400, at + 500)
        process.kernel("gemm", at + 450, at + 900, process.call(at + 410, at + 430))
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    drafts = cycles.filter(phase="draft")
    assert drafts["gpu_start_ns"].null_count() == 3
    rows = build_ledger(cycles, trace.ops).rows.filter(pl.col("phase") == "draft")
    assert rows["launch_gap"].to_list() == [400, 400, 400]


def replayed(codes: str, took: dict[str, int], nodes: bool = True) -> Tables:
    process, now = Process(), 0
    for code in codes:
        call = process.call(now, now + 5, graph=True)
        if nodes:
            count = ord(code) - ord("A") + 2  # graphs differ in their number of kernels
            each = took[code] // count
            for node in range(count):
                process.kernel(f"gemm {code}", now + 10 + node * each, now + 10 + (node + 1) * each, call, node=node)
        else:
            process.graph(now + 10, now + 10 + took[code], call, graph_id=ord(code))
        now += took[code] + 20
    return tables(process)


@pytest.mark.parametrize("nodes", [True, False])
def test_cycles_are_read_off_graph_replays_that_come_round_in_order(nodes: bool) -> None:
    trace = replayed("DVE" * 8 + "D", {"D": 100, "V": 900, "E": 80}, nodes)
    cycles = cycles_of_replays(trace.launches, trace.ops, trace.graphs)
    assert cycles["provenance"].unique().to_list() == ["derived"]
    order = cycles.filter(cycle=2).sort("host_start_ns").filter(pl.col("phase") != "cycle")["phase"].to_list()
    assert order == ["draft", "verify", "re_extend"]
    assert cycles.filter(phase="cycle").height == 8
    build_ledger(cycles, trace.ops).self_check()


def test_what_graph_replays_cannot_tell_is_not_named() -> None:
    took = {"D": 100, "V": 900, "E": 110}
    two = replayed("DV" * 8, took)
    phases = cycles_of_replays(two.launches, two.ops, two.graphs)["phase"].unique().sort().to_list()
    assert phases == ["cycle", "verify"]  # draft or re-extend: nobody can tell
    one = replayed("V" * 9, took)
    assert cycles_of_replays(one.launches, one.ops, one.graphs)["phase"].unique().sort().to_list() == [
        "cycle",
        "forward",
    ]
    alike = replayed("DE" * 8, took)
    assert cycles_of_replays(alike.launches, alike.ops, alike.graphs)["phase"].unique().to_list() == ["cycle"]
    drafts = replayed("DDV" * 8, took)
    named = cycles_of_replays(drafts.launches, drafts.ops, drafts.graphs).filter(cycle=1)
    assert named.sort("host_start_ns").filter(pl.col("phase") != "cycle")["phase"].to_list() == [
        "draft",
        "draft",
        "verify",
    ]


def test_replays_without_a_pattern_or_an_identity_give_no_cycles() -> None:
    took = dict.fromkeys("ABCDEFGH", 100)
    mess = replayed("ABCAHDEBGFACEHDBAGCFBEHADCGB", took)
    assert not cycles_of_replays(mess.launches, mess.ops, mess.graphs).height
    process = Process()
    for at in range(0, 400, 20):  # traced as wholes, no graph id
        process.graph(at + 5, at + 15, process.call(at, at + 2, graph=True))
    blind = tables(process)
    assert not cycles_of_replays(blind.launches, blind.ops, blind.graphs).height


def test_a_few_replays_among_much_other_work_are_no_cycles() -> None:
    """A training step that replays small graphs looks periodic, too."""
    trace = replayed("DVE" * 8, {"D": 100, "V": 900, "E": 80})
    assert cycles_of_replays(trace.launches, trace.ops, trace.graphs).height
    extra, last = trace.kernels, 10_000
    for stream in (20, 21, 22):  # the same work again, launched by an ordinary call
        more = trace.kernels.with_columns(
            pl.lit(stream, pl.Int64).alias("stream"), pl.lit(last, pl.Int64).alias("correlation")
        )
        extra = pl.concat([extra, more])
    trace.tables["kernels"] = extra
    assert not cycles_of_replays(trace.launches, trace.ops, trace.graphs).height


def test_pieces_of_a_piecewise_graph_are_one_long_period_not_many_short_ones() -> None:
    import numpy as np

    layers = np.array(([1] * 59 + [2]) * 8)
    assert find_period(layers) == 60
    assert find_period(np.array([1, 2] * 3)) is None  # too few rounds
