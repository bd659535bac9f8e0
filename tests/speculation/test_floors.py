"""Floors: the published measurements come back, and nothing is claimed where nobody measured."""

from __future__ import annotations

import math

import pytest

from traceana.speculation.floors import allreduce, forward, hardware, nccl_model


def _ms(gpu: str, library: str, mode: str | None, tokens: int) -> float:
    box = hardware.gpu(gpu)
    assert box is not None and box.system is not None
    (curve,) = allreduce.for_box(box.system, 8, library, mode)
    return forward.allreduce_floor(curve, layers=61, hidden=7168, tokens=tokens).forward_ms


@pytest.mark.parametrize(
    ("gpu", "library", "mode", "expected"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "nccl", None, {1: 3.29, 4: 4.05, 16: 9.26, 64: 16.58}),
        ("L40S", "nccl", None, {1: 4.85, 3: 13.94, 16: 47.93}),
        ("NVIDIA A100-SXM4-80GB", "nccl", None, {1: 2.72, 16: 3.35}),
        ("H100", "nccl", None, {1: 2.24, 512: 8.83}),
        ("H200", "nccl", None, {1: 2.19, 64: 3.04}),
        ("H200", "vllm", "graph", {1: 0.63, 16: 1.17}),
        ("B200", "sglang", "graph", {1: 0.64, 16: 1.00}),
    ],
)
def test_floor_of_a_forward_of_kimi_k2_on_eight_gpus(gpu, library, mode, expected):
    for tokens, ms in expected.items():
        assert _ms(gpu, library, mode, tokens) == pytest.approx(ms, abs=0.006)


def test_between_two_measured_sizes_the_time_lies_between_theirs():
    for curve in allreduce.curves():
        for (low, low_us), (high, high_us) in zip(curve.points, curve.points[1:], strict=False):
            middle = curve.at(int(math.sqrt(low * high)))
            assert min(low_us, high_us) - 1e-9 <= middle.us <= max(low_us, high_us) + 1e-9
            assert curve.at(low).us == pytest.approx(low_us)
            assert curve.at(low).how == "interpolated"


def test_beyond_the_measured_sizes_it_says_so():
    curve = allreduce.for_box("h200_sxm", 8, "nccl")[0]
    assert curve.at(1).how == "smallest"
    assert curve.at(1).us == curve.points[0][1]
    largest, slowest = curve.points[-1]
    beyond = curve.at(largest * 2)
    assert beyond.how == "extrapolated"
    assert slowest < beyond.us < 3 * slowest


def test_every_curve_is_ascending_in_size_and_belongs_to_a_gpu_of_the_table():
    systems = {hardware.gpu(curve.device).system for curve in allreduce.curves()}  # type: ignore[union-attr]
    assert systems == {curve.system for curve in allreduce.curves()}
    for curve in allreduce.curves():
        sizes = [size for size, _ in curve.points]
        assert sizes == sorted(set(sizes))


def test_a_box_nobody_measured_has_no_curve():
    assert allreduce.for_box("h100_sxm", 3) == ()


@pytest.mark.parametrize(
    ("ranks", "link", "protocol", "us"),
    [
        (2, "pcie", "ll", 8.6),
        (4, "pcie", "ll128", 29.0),
        (8, "pcie", "ll", 20.6),
        (8, "pcie", "simple", 88.2),
        (8, "nvlink", "ll", 15.0),
        (4, "nvlink", "simple", 28.8),
    ],
)
def test_latency_of_nccl_s_own_model(ranks, link, protocol, us):
    assert nccl_model.latency_us(ranks, link, protocol) == pytest.approx(us)


def test_simple_instead_of_ll_explains_eight_of_the_eleven_ms_of_the_founding_case():
    simple, shared, topology = nccl_model.path_costs(8, "pcie")
    assert [round(c.high_us * 122 / 1000, 1) for c in (simple, shared, topology)] == [8.2, 10.1, 2.8]
    assert all(c.low_us == 0 for c in (simple, shared, topology))


def test_measured_path_costs_are_not_carried_to_other_boxes():
    assert [c.name for c in nccl_model.path_costs(8, "nvlink")] == ["Simple where LL would do"]


def test_weights_and_launches():
    h100 = hardware.gpu("H100")
    assert h100 is not None
    assert forward.weight_read_ms(h100, 3.35e9) == pytest.approx(1.0)
    assert forward.launch_ms(1000) == (2.0, 8.0)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("moonshotai/Kimi-K2.5", (61, 7168)),
        ("deepseek-ai/DeepSeek-R1", (61, 7168)),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", (80, 8192)),
        ("meta-llama/Llama-3.1-8B-Instruct", (32, 4096)),
        ("Qwen/Qwen3-30B-A3B", (48, 2048)),
    ],
)
def test_shape_by_name(model, shape):
    found = hardware.shape(model)
    if "Distill" in model:
        assert found is None  # the distilled models are others
    else:
        assert found is not None
        assert (found.layers, found.hidden) == shape


@pytest.mark.parametrize(
    ("model", "share"),
    [
        ("example-org/Larch-30B-A3B-Instruct", 0.1),
        ("example-org/larch-122b-a10b", 10 / 122),
        ("/models/DeepSeek-R1-0528", 37 / 671),
        ("gpt-oss-120b", 5.1 / 117),
        ("DeepSeek-R1-Distill-Llama-8B", None),
        ("example-org/Fern-24B", None),
        ("example-org/Odd-8B-A8B", None),
        ("", None),
    ],
)
def test_the_active_share_of_a_mixture_is_read_from_its_name(model: str, share: float | None) -> None:
    assert hardware.active_share(model) == (None if share is None else pytest.approx(share))
