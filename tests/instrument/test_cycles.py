"""What a line says of cycles whose every part took a known time."""

import sys
import types
from typing import Any

import pytest

from tests.instrument.engine import HOOKS, MODULE, MS, Batch, Clock, install, make_worker, taken
from traceana_instrument.hook import Hook
from traceana_instrument.settings import Settings


def test_the_parts_the_rest_and_the_total_are_those_of_the_cycle(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    assert [worker().forward(Batch()) for _ in range(3)] == ["done"] * 3
    line = taken(state)
    assert (line["draft_ms"], line["verify_ms"], line["re_extend_ms"]) == (2, 10, 1)
    assert (line["other_ms"], line["total_ms"]) == (0.5, 13.5)
    assert (line["v"], line["cycles"], line["batch"], line["k"], line["clock"]) == (1, 3, 1, 3, "host")
    assert line["overhead_us"] == 0  # the clock stands still while the timers work
    assert "host_verify_ms" not in line  # would only repeat the others


def test_what_is_not_known_is_left_out(clock: Clock) -> None:
    worker = make_worker(clock)
    state, _ = install(clock, worker, [row for row in HOOKS if row.phase in ("cycle", "verify")])
    worker.topk = 4  # a tree: its width is no chain's k
    worker().forward(Batch())
    line = taken(state)
    assert not {"draft_ms", "re_extend_ms", "accept_length", "k", "between_ms", "comm", "lost"} & set(line)
    assert line["other_ms"] == 3.5


def test_a_prefill_is_no_cycle(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    worker().forward(Batch(prefill=True))
    assert state.interval.take() is None


def test_the_time_between_two_cycles_counts_while_the_same_request_decodes(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    engine = worker()
    engine.forward(Batch("a"))
    clock.pass_ms(3)  # the scheduler at work
    engine.forward(Batch("a", "b"))
    clock.pass_ms(9000)  # nobody asks for anything
    engine.forward(Batch("c"))
    engine.forward(Batch(prefill=True))
    engine.forward(Batch("c"))  # a prefill lay between
    line = taken(state)
    assert (line["cycles"], line["between_ms"], line["total_ms"], line["other_ms"]) == (4, 3, 16.5, 3.5)


def test_the_batch_is_the_most_common_one_and_its_mean_is_beside_it(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    for names in (("a",), ("a", "b"), ("a", "b")):
        worker().forward(Batch(*names))
    line = taken(state)
    assert (line["batch"], line["batch_mean"]) == (2, 1.67)


def test_k_is_left_out_where_it_changed(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    worker().forward(Batch())
    worker.speculative_num_draft_tokens = 2
    worker().forward(Batch())
    assert "k" not in taken(state)


def test_a_part_inside_another_is_taken_out_of_it(clock: Clock) -> None:
    worker = make_worker(clock)
    state, _ = install(clock, worker)
    engine = worker()
    engine.also = engine.catch_up  # 1 ms of re-extend inside the 10 ms of verify
    engine.forward(Batch())
    line = taken(state)
    assert (line["verify_ms"], line["re_extend_ms"], line["total_ms"], line["other_ms"]) == (10, 2, 14.5, 0.5)


def test_a_part_inside_itself_is_counted_once(clock: Clock) -> None:
    base = make_worker(clock)

    class Standalone(base):  # type: ignore[misc, valid-type]
        def verify(self) -> str:
            clock.pass_ms(1)
            return str(super().verify())

    Standalone.__module__ = MODULE
    state, _ = install(
        clock, base, [*HOOKS, Hook(MODULE, "Standalone.verify", "verify", "1.0..")], None, Standalone=Standalone
    )
    state._ranges = spy = Spy()
    Standalone().forward(Batch())
    assert taken(state)["verify_ms"] == 11
    assert spy.seen.count("+verify") == 1


def test_a_cycle_inside_itself_is_one_cycle(clock: Clock) -> None:
    base = make_worker(clock)

    class Standalone(base):  # type: ignore[misc, valid-type]
        def forward(self, batch: Batch) -> str:
            clock.pass_ms(1)
            return str(super().forward(batch))

    Standalone.__module__ = MODULE
    state, _ = install(
        clock, base, [*HOOKS, Hook(MODULE, "Standalone.forward", "cycle", "1.0..", read="sglang_batch")], None,
        Standalone=Standalone,
    )  # fmt: skip
    Standalone().forward(Batch())
    line = taken(state)
    assert (line["cycles"], line["total_ms"]) == (1, 14.5)


# ---- vLLM's shape: a cycle over two calls, a re-extend that is the first part of the draft

STEP = types.SimpleNamespace


def step(requests: dict[str, int], spec: dict[str, list[int]], new: tuple[str, ...] = ()) -> Any:
    return STEP(
        scheduled_spec_decode_tokens=spec,
        scheduled_new_reqs=list(new),
        num_scheduled_tokens=requests,
        total_num_scheduled_tokens=sum(requests.values()),
    )


def make_runner(clock: Clock) -> type:
    class GPUModelRunner:
        speculative_config = STEP(num_speculative_tokens=3, method="eagle3")
        output: Any = None

        def execute_model(self, scheduler_output: Any) -> None:
            clock.pass_ms(10)

        def sample_tokens(self, grammar: object = None) -> Any:
            clock.pass_ms(1)
            self.propose()
            clock.pass_ms(0.5)
            return self.output

        def propose(self) -> None:
            clock.pass_ms(3)
            self.sample_draft()
            clock.pass_ms(4)
            self.sample_draft()

        def sample_draft(self) -> None:
            clock.pass_ms(0.25)

    GPUModelRunner.__module__ = MODULE
    return GPUModelRunner


RUNNER_HOOKS = (
    Hook(MODULE, "GPUModelRunner.execute_model", "verify", "1.0.."),
    Hook(MODULE, "GPUModelRunner.execute_model", "cycle", "1.0..", read="vllm_step", until="sample_tokens"),
    Hook(MODULE, "GPUModelRunner.execute_model", "cycle", "..0.9", read="vllm_step"),
    Hook(MODULE, "GPUModelRunner.sample_tokens", "count", "1.0..", read="vllm_output"),
    Hook(MODULE, "GPUModelRunner.propose", "draft", "1.0.."),
    Hook(MODULE, "GPUModelRunner.propose", "re_extend", "1.0..", before="gone, sample_draft"),
)


def test_a_cycle_lasts_from_one_call_to_the_end_of_another(clock: Clock) -> None:
    runner = make_runner(clock)
    state, installed = install(clock, runner, RUNNER_HOOKS)
    assert [why for _, why in installed.missing] == ["timed by another row"]
    engine = runner()
    for _ in range(2):
        engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
        clock.pass_ms(2)  # between the calls, in the cycle
        engine.sample_tokens()
    line = taken(state)
    assert (line["cycles"], line["verify_ms"], line["re_extend_ms"], line["draft_ms"]) == (2, 10, 3, 4.5)
    assert (line["total_ms"], line["other_ms"], line["k"]) == (21, 3.5, 3)


@pytest.mark.parametrize(
    "mixed",
    [
        step({"a": 4, "b": 100}, {"a": [1, 2, 3]}),
        step({"a": 4, "b": 1}, {"a": [1, 2, 3]}, ("b",)),
        step({}, {}),
    ],
    ids=["a prefill goes on", "a new request", "nothing to do"],
)
def test_a_step_with_a_prefill_in_it_is_no_cycle(clock: Clock, mixed: Any) -> None:
    runner = make_runner(clock)
    state, _ = install(clock, runner, RUNNER_HOOKS)
    engine = runner()
    engine.execute_model(mixed)
    engine.sample_tokens()
    assert state.interval.take() is None


def test_a_server_that_does_not_speculate_prints_nothing(clock: Clock) -> None:
    runner = make_runner(clock)
    runner.speculative_config = None  # type: ignore[attr-defined]
    state, _ = install(clock, runner, RUNNER_HOOKS)
    engine = runner()
    engine.execute_model(step({"a": 1}, {}))
    engine.sample_tokens()
    assert state.interval.take() is None


def test_a_cycle_whose_second_call_never_comes_is_dropped(clock: Clock) -> None:
    runner = make_runner(clock)
    state, _ = install(clock, runner, RUNNER_HOOKS)
    engine = runner()
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    clock.pass_ms(5000)
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    engine.sample_tokens()
    line = taken(state)
    assert (line["cycles"], line["total_ms"]) == (1, 19)


def output(**tokens: list[int]) -> Any:
    return STEP(req_ids=list(tokens), sampled_token_ids=list(tokens.values()))


def test_accept_length_counts_only_requests_that_had_a_draft(clock: Clock) -> None:
    runner = make_runner(clock)
    state, _ = install(clock, runner, RUNNER_HOOKS)
    engine = runner()
    engine.output = output(a=[5, 6, 7], b=[8], c=[9], d=[])
    engine.execute_model(step({"a": 4, "b": 4, "c": 1, "d": 4}, {"a": [1, 2, 3], "b": [1, 2, 3], "d": [1, 2, 3]}))
    engine.sample_tokens()
    line = taken(state)
    # a emitted three and b one; c had no draft, d's tokens were discarded
    assert (line["accept_length"], line["accept_requests"]) == (2.0, 2)
    assert line["per_position"] == [0.5, 0.5]
    assert line["coverage"] == 0.75


class Array(list):
    """As numpy's arrays are, and vLLM 0.11.1 has them: no truth value."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def test_tokens_may_be_arrays(clock: Clock) -> None:
    runner = make_runner(clock)
    state, _ = install(clock, runner, RUNNER_HOOKS)
    engine = runner()
    engine.output = output(a=Array([5, 6, 7]), b=Array())
    engine.execute_model(step({"a": 4, "b": 4}, {"a": [1, 2, 3], "b": [1, 2, 3]}))
    engine.sample_tokens()
    line = taken(state)
    assert (line["accept_length"], line["accept_requests"], state.faults) == (3.0, 1, 0)


def test_accept_length_of_an_asynchronous_output_is_counted_when_it_is_there(clock: Clock) -> None:
    class Later:
        def get_output(self) -> Any:
            return output(a=[5, 6])

    Later.__module__ = MODULE
    runner = make_runner(clock)
    hooks = [*RUNNER_HOOKS, Hook(MODULE, "Later.get_output", "count", "1.0..", read="vllm_async_output")]
    state, _ = install(clock, runner, hooks, None, Later=Later)
    engine = runner()
    engine.output = Later()
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    later = engine.sample_tokens()
    assert later.get_output().sampled_token_ids == [[5, 6]]
    later.get_output()  # a second reading counts nothing
    line = taken(state)
    assert (line["accept_length"], line["accept_requests"]) == (2.0, 1)


def test_the_engines_own_counter_goes_before_what_the_timers_saw(clock: Clock) -> None:
    worker = make_worker(clock)

    class Reporter:
        def update_spec_metrics(self, bs: int, num_correct_drafts: int) -> None:
            pass

    Reporter.__module__ = MODULE
    hooks = [*HOOKS, Hook(MODULE, "Reporter.update_spec_metrics", "count", "1.0..", read="sglang_spec_metrics")]
    state, _ = install(clock, worker, hooks, None, Reporter=Reporter)
    worker().forward(Batch("a", "b"))
    state.interval.accept("result", 2, 2, [0, 0])
    Reporter().update_spec_metrics(2, num_correct_drafts=3)
    line = taken(state)
    assert (line["accept_length"], line["accept_requests"]) == (2.5, 2)


# ---- conditions and collectives


def test_a_call_is_the_verify_only_where_it_says_so(clock: Clock) -> None:
    base = make_worker(clock)

    class Target:
        def forward_batch_generation(self, batch: object, is_verify: bool = False) -> None:
            clock.pass_ms(7)

    Target.__module__ = MODULE

    class Worker(base):  # type: ignore[misc, valid-type]
        def forward(self, batch: Batch) -> str:
            self.draft()
            Target().forward_batch_generation(batch)
            Target().forward_batch_generation(batch, is_verify=True)
            return "done"

    Worker.__module__ = MODULE
    hooks = [
        Hook(MODULE, "Target.forward_batch_generation", "verify", "1.0..", when="is_verify"),
        Hook(MODULE, "Worker.forward", "cycle", "1.0..", read="sglang_batch"),
    ]
    state, _ = install(clock, Worker, hooks, None, Target=Target)
    Worker().forward(Batch())
    assert taken(state)["verify_ms"] == 7


class Tensor:
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def numel(self) -> int:
        return self.rows * 4

    def element_size(self) -> int:
        return 2


def collective_engine(clock: Clock) -> tuple[Any, type]:
    class Group:
        def _all_reduce_out_place(self, tensor: Tensor) -> Tensor:
            clock.pass_ms(0.1 * tensor.rows)
            return tensor

    Group.__module__ = MODULE
    return Group, make_worker(clock)


@pytest.mark.parametrize("wanted", [True, False])
def test_collectives_are_timed_by_size_when_asked_for(clock: Clock, wanted: bool) -> None:
    group, worker = collective_engine(clock)
    hooks = [*HOOKS, Hook(MODULE, "Group._all_reduce_out_place", "comm", "1.0..", read="first_tensor")]
    state, _ = install(clock, worker, hooks, Settings(on=True, comm=wanted), Group=group)
    engine = worker()

    def reduce() -> None:
        for rows in (1, 1, 4):
            group()._all_reduce_out_place(Tensor(rows))

    engine.also = reduce
    engine.forward(Batch())
    reduce()  # outside a cycle: not counted
    line = taken(state)
    assert line["verify_ms"] == 10.6  # collectives are part of the phase they lie in
    if wanted:
        assert line["comm_ms"] == 0.6
        assert line["comm"] == [
            {"op": "all_reduce", "bytes": 32, "in": "verify", "per_cycle": 1.0, "us": 400.0},
            {"op": "all_reduce", "bytes": 8, "in": "verify", "per_cycle": 2.0, "us": 100.0},
        ]
    else:
        assert "comm" not in line


def test_nothing_is_timed_while_torch_compile_traces(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    torch.compiler = STEP(is_compiling=lambda: tracing[0])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    tracing = [True]
    group, worker = collective_engine(clock)
    hooks = [*HOOKS, Hook(MODULE, "Group._all_reduce_out_place", "comm", "1.0..", read="first_tensor")]
    state, _ = install(clock, worker, hooks, Settings(on=True, comm=True), Group=group)
    engine = worker()
    engine.also = lambda: group()._all_reduce_out_place(Tensor(1))
    engine.forward(Batch())
    assert "comm" not in taken(state)
    tracing[0] = False
    engine.forward(Batch())
    assert taken(state)["comm_ms"] == 0.1


def test_a_draft_models_forward_is_the_draft_unless_it_lies_in_another_part(clock: Clock) -> None:
    base = make_worker(clock)

    class ModelRunner:
        def __init__(self, is_draft_worker: bool) -> None:
            self.is_draft_worker = is_draft_worker

        def forward(self) -> None:
            clock.pass_ms(4)

    ModelRunner.__module__ = MODULE

    class Inline(base):  # type: ignore[misc, valid-type]
        def forward(self, batch: Batch) -> str:
            ModelRunner(True).forward()  # the draft
            ModelRunner(False).forward()  # the target: no part of its own
            self.verify()
            self.catch_up()
            return "done"

    Inline.__module__ = MODULE
    hooks = [
        *HOOKS,
        Hook(MODULE, "Inline.forward", "cycle", "1.0..", read="sglang_batch"),
        Hook(MODULE, "ModelRunner.forward", "draft", "1.0..", when="draft_runner"),
    ]
    state, _ = install(clock, base, hooks, None, Inline=Inline, ModelRunner=ModelRunner)
    engine = Inline()
    engine.also = ModelRunner(True).forward  # inside the verify it belongs to that
    engine.forward(Batch())
    line = taken(state)
    assert (line["draft_ms"], line["verify_ms"], line["other_ms"]) == (4, 14, 4)


def test_a_part_that_nothing_would_end_is_not_timed(clock: Clock) -> None:
    runner = make_runner(clock)
    gone = Hook(MODULE, "GPUModelRunner.propose", "re_extend", "1.0..", before="gone, gone_too")
    state, installed = install(clock, runner, [*RUNNER_HOOKS[:-1], gone])
    assert (gone, "no gone or gone_too to end it") in installed.missing
    engine = runner()
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    engine.sample_tokens()
    line = taken(state)
    assert "re_extend_ms" not in line and line["draft_ms"] == 7.5


def test_the_timers_own_time_is_counted_apart(clock: Clock) -> None:
    """Each look at the clock takes 0.1 ms here: that is nearly all the timers do, and it is in no part of a cycle."""
    group, worker = collective_engine(clock)
    hooks = [*HOOKS, Hook(MODULE, "Group._all_reduce_out_place", "comm", "1.0..")]
    state, _ = install(clock, worker, hooks, Settings(on=True, comm=True), Group=group)
    engine = worker()
    engine.also = lambda: group()._all_reduce_out_place(Tensor(10))
    clock.tick = MS // 10
    for _ in range(2):
        engine.forward(Batch())
    line = taken(state)
    # a part keeps the look that ends it; the collective's two, at its start and its end, are the verify's
    assert (line["draft_ms"], line["verify_ms"], line["re_extend_ms"]) == (2.1, 11.3, 1.1)
    assert line["comm_ms"] == 1.1
    assert line["between_ms"] == 0.1
    # 14.5 ms of the engine, the first and the last look of three parts and a collective, and the cycle's last
    assert line["total_ms"] - line["between_ms"] == pytest.approx(14.5 + 0.9)
    assert line["overhead_us"] > 700


# ---- NVTX


class Spy:
    """Stands in for torch.cuda.nvtx."""

    name = "spy"

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[str] = []

    def start(self, name: str) -> str:
        self.open.append(name)
        self.seen.append("+" + name)
        return name

    def end(self, token: str) -> None:
        self.open.remove(token)
        self.seen.append("-" + token)


def test_ranges_surround_the_cycle_and_its_parts(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    state._ranges = spy = Spy()
    worker().forward(Batch())
    assert spy.seen == ["+cycle", "+draft", "-draft", "+verify", "-verify", "+re_extend", "-re_extend", "-cycle"]


def test_ranges_are_closed_whatever_happens(clock: Clock) -> None:
    runner = make_runner(clock)
    state, _ = install(clock, runner, RUNNER_HOOKS)
    state._ranges = spy = Spy()
    engine = runner()
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    engine.sample_tokens()
    assert spy.seen == [
        "+cycle", "+verify", "-verify", "+draft", "+re_extend", "-re_extend", "-draft", "-cycle"
    ]  # fmt: skip
    engine.execute_model(step({"a": 4}, {"a": [1, 2, 3]}))
    runner.sample_draft = lambda self: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        engine.sample_tokens()
    assert spy.open == []
