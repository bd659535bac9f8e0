"""The cycle against its floors: founding figures, gaps that add up, and no number where the inputs carry none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.generate import founding
from traceana import api
from traceana.facts.box import with_said
from traceana.facts.gap import measured_against_floor
from traceana.facts.gap_model import LevelFloor, MeasuredAgainstFloor, PhaseFloor
from traceana.facts.model import Evidence, Fact, Facts, PathStatement
from traceana.report.interface import render

ROOT = Path(__file__).parents[2]
GPU = "RTX PRO 6000"
KIMI = {
    "model_type": "kimi_k25",
    "text_config": {
        "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "num_hidden_layers": 61, "num_attention_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 384,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "vocab_size": 163840,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
        },
    },
}  # fmt: skip
EAGLE = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 7168, "intermediate_size": 18432,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 1, "vocab_size": 163840,
    "draft_vocab_size": 32000,
}  # fmt: skip


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The founding run with an eager verify, and the config.json of target and drafter."""
    folder = tmp_path_factory.mktemp("founding")
    founding.write(folder, "eager_verify")
    for name, config in (("target", KIMI), ("draft", EAGLE)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


def facts(case: Path, *names: str) -> Facts:
    return api.read_facts([str(case / name) for name in names])


def found(
    run: Facts, gpu: str | None = GPU, layers: int | None = None, hidden: int | None = None
) -> MeasuredAgainstFloor:
    made = measured_against_floor(with_said(run, gpu, layers, hidden))
    assert made is not None
    return made


def whole(made: MeasuredAgainstFloor) -> PhaseFloor:
    (level,) = made.levels
    return level.phases[-1]


def phase(level: LevelFloor, name: str) -> PhaseFloor:
    return next(p for p in level.phases if p.name == name)


@pytest.mark.parametrize(("tokens", "ms"), [(1, 3.3), (4, 4.05), (16, 9.3)])
def test_the_founding_box_has_its_founding_floors(case: Path, tokens: int, ms: float):
    run = facts(case, "server.log")
    regime = replace(run.regimes[0], tokens_per_forward=tokens)
    (floor,) = whole(found(replace(run, regimes=(regime,)), GPU, 61, 7168)).floors
    assert floor.kind == "allreduce"
    assert floor.low_ms == floor.high_ms == pytest.approx(ms, abs=0.04)
    assert "122 allreduces" in floor.basis
    assert floor.provenance.value == "assumed"


def test_the_gap_is_what_was_measured_without_the_floors(case: Path):
    cycle = whole(found(facts(case, "server.log")))
    assert cycle.gap_low_ms == pytest.approx(cycle.measured_ms - sum(f.high_ms for f in cycle.floors))
    assert any("config.json" in text for text in cycle.no_floor)


def test_a_trace_says_what_the_gap_consists_of_and_the_parts_add_up(case: Path):
    made = found(facts(case, "server.log", "nccl.log", "traces"), gpu=None)
    (level,) = made.levels
    for part in level.phases:
        assert sum(g.low_ms for g in part.gap) == pytest.approx(part.gap_low_ms)
        assert sum(g.high_ms for g in part.gap) == pytest.approx(part.gap_high_ms)
    verify = {g.name: g.high_ms for g in phase(level, "verify").gap}
    assert 14 < verify["launch gaps"] < 16  # planted: half of the fill of every layer
    assert 0 < verify["allreduce transfer over floor"] < 1.5


def test_config_files_add_weights_and_the_drafter(case: Path):
    made = found(facts(case, "server.log", "traces", "target", "draft"), gpu=None)
    (level,) = made.levels
    assert not level.phases[-1].no_floor
    read = next(f for f in phase(level, "verify").floors if f.kind == "weights")
    # 6.0 GB per GPU for one token's experts, 9 GB for those of three, at 1,792 GB/s
    assert 3.2 < read.low_ms < 3.6 < 4.7 < read.high_ms < 5.3
    assert {f.kind for f in phase(level, "draft").floors} == {"weights"}  # the trace shows no allreduce in it
    assert (made.shape_from, made.layers) == ("from config.json", 61)


def test_a_floor_above_the_measurement_is_impossible_and_no_negative_gap(case: Path):
    cycle = whole(found(facts(case, "server.log"), GPU, 3000, 7168))
    assert cycle.impossible is not None
    assert cycle.gap_low_ms is cycle.gap_high_ms is None
    shown = render(api.diagnose([str(case / "server.log")], said=api.Said(GPU, 3000, 7168)), "terminal", width=80)
    assert "impossible: a floor of" in shown


def test_a_trace_that_transfers_faster_than_the_published_box_is_said_to(case: Path):
    run = facts(case, "server.log", "nccl.log", "traces")
    made = found(run, gpu="L40S")  # slower: shared memory instead of P2P
    assert "slower box" in (whole(made).impossible or "")


def test_what_is_missing_is_named_with_what_would_give_it(case: Path):
    made = found(facts(case, "server.log"), gpu=None)
    assert not made.levels
    assert made.missing == ("GPU not known (--gpu, or a trace that names it)",)
    assert found(facts(case, "server.log"), "Voodoo 2").missing == ("Voodoo 2 is not in the table of GPUs",)


def test_one_half_of_a_shape_is_no_shape():
    demo = api.read_facts([str(ROOT / "fixtures" / "demo" / "server.log")])
    assert any("--hidden" in text for text in found(demo, GPU, 61).missing)


def test_an_allreduce_that_nobody_measured_has_no_lower_end(case: Path):
    run = facts(case, "server.log")
    own = PathStatement("custom_allreduce", "on", "its own", (0,), 1, Evidence("server.log"))
    (floor,) = whole(found(replace(run, collectives=(own,)))).floors
    assert floor.low_ms == 0 < floor.high_ms


def test_attention_on_data_parallel_ranks_has_no_allreduce_floor(case: Path):
    run = facts(case, "server.log")
    row = replace(run.settings.rows[0], name="enable_dp_attention", value="True", parsed=True)
    made = found(replace(run, settings=replace(run.settings, rows=(row, *run.settings.rows))))
    assert not made.levels
    assert any("data-parallel" in text for text in made.missing)


def test_one_gpu_reads_weights_and_reduces_nothing(case: Path):
    run = facts(case, "server.log", "target")
    alone = replace(run, parallelism=replace(run.parallelism, tp=Fact(1)))
    made = found(alone, "B200")
    floors = [f for level in made.levels for p in level.phases for f in p.floors]
    assert {f.kind for f in floors} <= {"weights"}


def test_a_server_on_the_cpu_has_no_floor():
    log = ROOT / "fixtures" / "instrument" / "vllm-eagle3-tp2.log"
    assert measured_against_floor(with_said(api.read_facts([str(log)]), GPU, 61, 7168)) is None


def test_timers_tell_the_host_between_two_cycles(tmp_path: Path):
    text = (ROOT / "fixtures" / "instrument" / "vllm-eagle3-tp2.log").read_text()
    (tmp_path / "server.log").write_text(text.replace("device_config=cpu", "device_config=cuda"))
    run = api.read_facts([str(tmp_path / "server.log")])
    (level,) = found(run, "H100", 32, 4096).levels
    gap = {g.name: g.high_ms for g in phase(level, "other").gap}
    assert gap["host between cycles"] == pytest.approx(run.cycle.between_ms)
    assert sum(gap.values()) == pytest.approx(phase(level, "other").measured_ms)


def test_sizes_traced_at_one_load_are_not_those_of_another(case: Path):
    run = facts(case, "server.log", "traces")
    more = replace(run.regimes[0], running=16, tokens_per_forward=48)
    one, other = found(replace(run, regimes=(*run.regimes, more)), None).levels
    sizes = [next(f for f in level.phases[-1].floors if f.kind == "allreduce").basis for level in (one, other)]
    assert "43,008 bytes" in sizes[0]
    assert "688,128 bytes" in sizes[1]


def test_timers_tell_what_the_host_needs_beside_the_gpu(case: Path, tmp_path: Path):
    line = {
        "v": 1,
        "rank": 0,
        "cycles": 200,
        "batch": 1,
        "k": 2,
        "draft_ms": 2.0,
        "verify_ms": 27.0,
        "re_extend_ms": 0.9,
    }
    line |= {"other_ms": 1.1, "total_ms": 31.0, "host_cycle_ms": 29.5, "between_ms": 0.8, "clock": "cuda_event"}
    text = (case / "server.log").read_text() + f"[2026-01-01 00:01:00 TP0] EAGLE3_PROFILE {json.dumps(line)}\n"
    (tmp_path / "server.log").write_text(text)
    (level,) = found(api.read_facts([str(tmp_path / "server.log")])).levels
    whole_cycle = level.phases[-1]
    host = next(f for f in whole_cycle.floors if f.kind == "host")
    assert (host.low_ms, host.provenance.value) == (29.5, "measured")
    assert sum(g.high_ms for g in whole_cycle.gap) == pytest.approx(whole_cycle.gap_high_ms)  # it is not taken off


def test_the_size_of_a_traced_allreduce_tells_the_tokens_of_a_verify(case: Path):
    wall = ROOT / "fixtures" / "traces" / "wall"
    made = found(api.read_facts([str(wall), str(case / "target")]), None)
    assert made.levels[0].tokens_per_forward == 4  # 57,344 bytes of 7,168 x 2
    assert {f.kind for f in phase(made.levels[0], "verify").floors} >= {"allreduce", "weights"}
