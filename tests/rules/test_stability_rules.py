"""STB001 to STB003: captures that never end, watchdogs, and servers that died."""

from dataclasses import replace

import pytest

from tests.rules.builders import at, fact
from tests.rules.node_builders import (
    NOON,
    capture,
    found,
    graphs,
    incident,
    last,
    node,
    ready,
    served,
)
from traceana.facts.model import Capacity, Evidence, RankActivity, Speculation, Window, WindowsFacts
from traceana.rules import stb001_graph_capture_never_ended as stb001
from traceana.rules import stb002_watchdog_timeout as stb002
from traceana.rules import stb003_engine_died as stb003
from traceana.rules._known_texts import ALL_TEXTS
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity

# STB001


def test_a_capture_without_end_is_told_with_its_silence():
    facts = node(graphs=graphs(capture("target verify", took=3.7), capture("draft decode", silent_s=2160.0)))
    finding = found(stb001.check(facts, None))
    assert "Capture of the draft decode graph on rank 0 began and did not end" in finding.title
    assert "36 min" in finding.title
    assert "speaks for a hang" in finding.why
    assert "cut" in finding.why, "the log may simply end"
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)


def test_a_log_that_ends_with_the_begin_line_is_not_called_a_hang():
    facts = node(graphs=graphs(capture("target decode", took=None)))
    finding = found(stb001.check(facts, None))
    assert "the log shows no end of it" in finding.title
    assert "speaks for a hang" not in finding.why


def test_a_short_silence_is_no_hang():
    facts = node(graphs=graphs(capture("target verify", took=12.1), capture("draft", silent_s=60.0)))
    assert "too little to call it a hang" in found(stb001.check(facts, None)).why


def test_a_compilation_in_flight_changes_the_advice():
    line = RankActivity(0, NOON, "flashinfer.jit: Loading JIT ops: batch_prefill", at(220))
    facts = node(graphs=graphs(capture("decode", progress="0/17")), last_seen=(line,))
    finding = found(stb001.check(facts, None))
    assert "at 0/17" in finding.title
    assert "compilation" in finding.why
    assert "compilation minutes" in finding.fix[0]
    assert at(220) in finding.evidence


def test_the_rank_that_did_not_end_is_named():
    done = [capture("target verify", rank, took=4.0) for rank in range(7)]
    facts = node(graphs=graphs(*done, capture("target verify", 7, silent_s=400.0)))
    assert "rank 7 is the odd one out" in found(stb001.check(facts, None)).why


def test_one_gpu_is_not_sent_after_p2p():
    single = found(stb001.check(node(tp=1, graphs=graphs(capture("decode", None))), None))
    assert not any("NCCL" in step for step in single.fix)


@pytest.mark.parametrize(
    "more",
    [{"startup": ready()}, {"windows": served()}],
)
def test_a_server_that_serves_has_captured(more):
    assert isinstance(stb001.check(node(graphs=graphs(capture("decode")), **more), None), Clear)


def test_a_full_bar_or_an_end_line_is_clear():
    facts = node(graphs=graphs(capture("decode", took=3.0), capture("verify", progress="6/6")))
    assert isinstance(stb001.check(facts, None), Clear)


def test_no_capture_is_no_question_and_no_start_up_cannot_tell():
    assert isinstance(stb001.check(node(tp=None), None), CannotTell)
    assert isinstance(stb001.check(node(graphs=graphs(switched_off=fact("disable_cuda_graph"))), None), NotApplicable)
    assert isinstance(stb001.check(node(windows=served()), None), Clear)


# STB002

VERIFY = (
    "_apply (penaltylib/min_new_tokens.py:78)",
    "apply (penaltylib/orchestrator.py:150)",
    "verify (eagle_info.py:259)",
)
WAIT = ("broadcast (distributed_c10d.py:2712)", "recv_requests (scheduler.py:1101)", "event_loop (scheduler.py:900)")


def dog(rank: int, frames: tuple[str, ...] = (), text: str = "Watchdog timeout (self.watchdog_timeout=300)"):
    kind = "stack_dump" if frames else "watchdog"
    return incident(kind, text, rank, frames=frames)


def test_the_rank_that_stands_elsewhere_is_named_with_its_stage():
    stacks = [dog(rank, VERIFY if rank == 6 else WAIT) for rank in range(8)]
    finding = found(stb002.check(node(incidents=(dog(3), *stacks)), None))
    assert "after 300 s" in finding.title
    assert "(reported by rank 3)" in finding.title
    assert "rank 6 stands in _apply (penaltylib/min_new_tokens.py) in the verify stage" in finding.title
    assert "7 other stacks" in finding.why
    assert "ranks wait for each other" in finding.why
    assert "penalt" in finding.why
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)


def test_a_single_stack_in_the_log_is_named_with_a_reserve():
    finding = found(stb002.check(node(incidents=(dog(3), dog(6, VERIFY))), None))
    assert "rank 6 stands in" in finding.title
    assert "Only this rank's stack is in the log" in finding.why
    assert finding.confidence is Confidence.MEDIUM


def test_all_ranks_in_the_same_frame_accuse_nobody():
    finding = found(stb002.check(node(incidents=tuple(dog(rank, WAIT) for rank in range(8))), None))
    assert "all stacks in the log stand in broadcast" in finding.title
    assert any("collective" in rival for rival in finding.rivals)


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (("forward (model.py:1)", "_draft_extend_for_decode (eagle_worker_v2.py:9)"), "re-extend"),
        (("forward (model.py:1)", "draft (eagle_worker.py:9)"), "draft"),
        (("forward (model.py:1)", "forward_target_extend (eagle_worker.py:9)"), "extend"),
    ],
)
def test_the_stage_comes_from_the_innermost_frame_that_names_one(frames, stage):
    finding = found(stb002.check(node(incidents=(dog(1, frames),)), None))
    assert f"in the {stage} stage" in finding.title


def test_without_stacks_only_the_hang_is_certain():
    finding = found(stb002.check(node(incidents=tuple(dog(rank) for rank in range(8))), None))
    assert "(reported by ranks 0-7)" in finding.title
    assert finding.confidence is Confidence.LOW
    assert any("py-spy" in step for step in finding.fix)


def test_the_last_lines_of_the_ranks_and_a_full_pool_are_mentioned():
    facts = node(
        incidents=(dog(3),),
        last_seen=(last(0, 290), last(1, 290), last(5, 10)),
        capacity=Capacity(usage_max=fact(0.998)),
    )
    finding = found(stb002.check(facts, None))
    assert "Last lines: rank 5 at 12:00:10, ranks 0-1 at 12:04:50" in finding.why
    assert any("pool" in rival for rival in finding.rivals)


def test_a_soft_watchdog_only_warns():
    text = "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"
    assert found(stb002.check(node(incidents=(dog(0, text=text),)), None)).severity is Severity.WARNING


def test_no_watchdog_is_clear_and_what_follows_one_is_not_told_twice():
    assert isinstance(stb002.check(node(), None), Clear)
    after = node(incidents=(dog(3), incident("sigquit", "Received sigquit"), incident("killed", "Killed")))
    assert isinstance(stb003.check(after, None), Clear)


# STB003


def died(*incidents, **more):
    return found(stb003.check(node(incidents=incidents, **more), None))


@pytest.mark.parametrize(
    ("kind", "text", "title", "confidence"),
    [
        (
            "shm_too_small",
            "Error while creating shared memory segment /dev/shm/nccl-Abc (size 9637888)",
            "/dev/shm",
            "high",
        ),
        (
            "exception",
            "ValueError: There is no module or parameter named 'draft_id_to_target_id'",
            "vocabulary map",
            "high",
        ),
        ("draft_vocab", "ValueError: vocab sizes differ", "vocabulary map", "high"),
        ("exception", "RuntimeError: CHECK_EQ(mat1.size(ndim - 1), K) failed. 512 vs 768", "another width", "medium"),
        ("worker_died", "Worker proc VllmWorker-0 died unexpectedly (exit code: -4)", "instruction", "medium"),
        ("out_of_memory", "torch.OutOfMemoryError: CUDA out of memory.", "ran out of memory", "high"),
        ("exception", "CUDA error: an illegal memory access was encountered", "outside its memory", "low"),
        (
            "exception",
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "not numbers",
            "medium",
        ),
        ("exception", "RuntimeError: CUDA error: an illegal instruction was encountered", "GPU kernel failed", "low"),
        ("exception", "Value error: Model architectures ['X'] are not supported for now.", "architecture", "high"),
        ("exception", "TimeoutError: RPC call to sample_tokens timed out.", "did not answer in time", "medium"),
        (
            "exception",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "no room",
            "high",
        ),
        (
            "exception",
            "OutOfResources: out of resource: shared memory, Required: 9, Hardware limit: 8.",
            "Triton",
            "medium",
        ),
        (
            "exception",
            "RuntimeError: CUDA error: peer access is not supported between these two devices",
            "cannot",
            "high",
        ),
        ("exception", "ValueError: something entirely new", "ValueError", "low"),
    ],
)
def test_known_last_words_are_explained(kind, text, title, confidence):
    finding = died(incident(kind, text, 2), incident("engine_dead", "EngineDeadError", second=1))
    assert title in finding.title
    assert finding.confidence.value == confidence
    assert finding.severity is Severity.CRITICAL


def test_the_root_is_the_first_error_not_the_loudest():
    finding = died(
        incident("engine_dead", "EngineCore encountered a fatal error.", second=9),
        incident("exception", "RuntimeError: Worker failed with error 'CHECK...', please check", second=8),
        incident("exception", "KeyError: 'layers.3.fc'", 5, second=3),
        incident("exception", "RuntimeError: cancelled", 1, second=2),
    )
    assert "KeyError on rank 5" in finding.title
    assert "followed by 3 more lines" in finding.why


def test_a_known_text_in_a_later_line_helps_an_unknown_first_one():
    finding = died(
        incident("exception", "RuntimeError: forward failed", second=0),
        incident("exception", "torch.OutOfMemoryError: CUDA out of memory.", second=1),
    )
    assert "ran out of memory" in finding.title


def test_a_worker_that_died_does_not_hide_the_exception_before_it():
    finding = died(
        incident("exception", "KeyError: 'layers.3.fc'", 5, second=3),
        incident("worker_died", "Worker proc VllmWorker-5 died unexpectedly (exit code: None)", second=1),
    )
    assert "KeyError on rank 5" in finding.title


def test_the_number_of_drafts_is_told_with_an_illegal_access():
    finding = died(
        incident("exception", "CUDA error: an illegal memory access was encountered"),
        speculation=Speculation(active=fact(True), k=fact(5)),
    )
    assert "drafts 5 tokens per cycle" in finding.why
    assert finding.rivals


def test_an_exception_that_the_server_survived_is_no_death():
    window = Window(NOON.replace(hour=13), "server", 4, 0, 100.0, 2.0, 2.0, 20.0, True, None, at(900))
    facts = node(
        incidents=(incident("exception", "ValueError: bad request"),), windows=WindowsFacts(n=1, sample=(window,))
    )
    finding = found(stb003.check(facts, None))
    assert finding.severity is Severity.WARNING
    assert "went on" in finding.title


_FRAMES = (
    "traverse_tree (spec_utils.py:41)",
    "generate_token_bitmask (spec_utils.py:90)",
    "verify (eagle_worker.py:7)",
)


def test_a_traceback_cut_before_its_message_is_told_by_where_it_stood():
    cut = incident("exception", "Scheduler hit an exception: Traceback (most recent call last):", frames=_FRAMES)
    finding = died(cut)
    assert "the message, is not in the log; it stood in traverse_tree (spec_utils.py:41)" in finding.why
    assert "a request with a grammar met speculation" in finding.title
    assert finding.confidence is Confidence.MEDIUM
    other = died(incident("exception", cut.text, frames=("forward (model.py:9)",)))
    assert other.title == "The engine died in forward (model.py:9); the message is not in this log"


def test_the_processors_illegal_instruction_is_not_the_gpus():
    assert "processor" not in died(incident("exception", "CUDA error: an illegal instruction was encountered")).why


def test_a_loader_that_ran_out_of_memory_is_not_told_as_a_wrong_checkpoint():
    frames = ("load_weights (llama_eagle3.py:5)",)
    assert "fit" in died(incident("exception", "KeyError: 'midlayer.weight'", frames=frames)).title
    assert "memory" in died(incident("exception", "OutOfMemoryError: CUDA out of memory.", frames=frames)).title


def test_the_line_that_a_vague_error_points_to_is_told_instead():
    vague = incident(
        "exception", "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    )
    warned = incident("nccl_error", "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out", second=1)
    assert "could not connect two InfiniBand or RoCE ports" in died(vague, warned).title
    assert "call to the system" in died(vague).title


def test_a_warning_of_nccl_alone_does_not_kill_the_engine():
    assert died(incident("nccl_error", "NCCL WARN socketProgress: Connection closed by remote peer")).title.startswith(
        "NCCL failed: another process of the NCCL group went away"
    )


def test_sigquit_alone_is_a_death_without_a_known_cause():
    finding = died(incident("sigquit", "Received sigquit from a child process. It usually means the child failed."))
    assert finding.confidence is Confidence.LOW


def test_failed_health_checks_alone_kill_nobody():
    outcome = stb003.check(node(incidents=(incident("health_check", "Health check failed."),)), None)
    assert isinstance(outcome, Clear)
    assert "health" in outcome.note
    assert isinstance(stb003.check(node(), None), Clear)


def test_excerpts_of_the_log_are_one_short_line_without_control_characters():
    text = "ValueError: \x1b[31mfirst\nsecond\x07 " + "x" * 500
    finding = died(replace(incident("exception", text), evidence=Evidence("server.log", 4, text=text)))
    assert "\n" not in finding.why
    assert "\x1b" not in finding.why
    assert "\x07" not in finding.why
    assert "x" * 200 not in finding.why


def test_every_known_text_names_its_source_and_is_written_in_lower_case():
    for row in ALL_TEXTS:
        assert row.source
        assert row.fix
        assert all(text == text.lower() for text in row.texts), row.title
