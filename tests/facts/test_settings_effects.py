"""The table of what may differ between two runs is whole and says where its sizes come from."""

import pytest

from traceana.facts.compare_size import Change, size
from traceana.facts.nccl_variables import load
from traceana.facts.settings_effects import (
    _effects,
    assumed_figure_noise,
    assumed_run_noise,
    effect_of,
    machine_noise,
    run_noise,
)


@pytest.mark.parametrize("row", _effects(), ids=lambda row: row[0][0])
def test_a_row_says_why_and_a_size_has_its_source(row) -> None:
    _, effect = row
    assert effect.why
    assert set(effect.acts_on) <= {"acceptance", "cycle", "batch"}
    assert effect.harmless or effect.acts_on
    if effect.us_per_allreduce or effect.cycle_factor:
        assert effect.source
    if effect.cycle_factor:
        assert 1 <= effect.cycle_factor[0] <= effect.cycle_factor[1]


def test_every_name_has_a_row_and_the_table_ends_with_the_one_for_all() -> None:
    assert _effects()[-1][0] == ("*",)
    assert effect_of("a_setting_nobody_knows").kind == "other"


@pytest.mark.parametrize(
    ("name", "kind", "harmless"),
    [
        ("cuda-graph-max-bs", "graphs", False),
        ("speculative_num_steps", "speculation", False),
        ("attention_backend", "kernels", False),
        ("NCCL_DEBUG", "machine", False),
        ("NCCL_P2P_LEVEL", "communication", False),
        ("port", "other", True),
        ("profiler_config.torch_profiler_dir", "other", True),
    ],
)
def test_known_names_are_grouped(name: str, kind: str, harmless: bool) -> None:
    assert (effect_of(name).kind, effect_of(name).harmless) == (kind, harmless)


def test_channels_buffers_and_threads_do_nothing_to_small_allreduces() -> None:
    for name in ("NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NTHREADS"):
        assert size(effect_of(name), Change("cycle", (19.0, 30.0))).fit == "none"


def test_every_variable_of_nccl_that_is_sized_is_sized_here() -> None:
    for name, variable in load().variables.items():
        if variable.small_allreduce_us:
            found = size(effect_of(name), Change("cycle", (19.0, 20.0)))
            assert f"{variable.small_allreduce_us:.0f} us" in found.words


def test_a_difference_too_large_for_a_cause_is_explained_in_part() -> None:
    found = size(effect_of("NCCL_GRAPH_FILE"), Change("cycle", (19.0, 60.0)))
    assert found.fit == "part"
    assert found.high_ms == pytest.approx(4.6)  # 200 allreduces of 23 us
    graphs = size(effect_of("disable_cuda_graph"), Change("cycle", (10.0, 80.0)))
    assert (graphs.fit, graphs.high_ms) == ("part", pytest.approx(20.0))


def test_assumed_spreads_lie_within_what_was_seen_in_public() -> None:
    seen = [(row.low, row.high) for row in run_noise()]
    assert min(low for low, _ in seen) <= assumed_run_noise() <= assumed_figure_noise() <= max(h for _, h in seen)
    (low, high), source = machine_noise()
    assert low < 1 < high
    assert source
