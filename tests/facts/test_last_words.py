"""What a log's last lines say: errors of starts, tracebacks with escaped quotes, other heads."""

from __future__ import annotations

from pathlib import Path

from traceana import api
from traceana.facts.model import Facts


def _facts(folder: Path, text: str) -> Facts:
    (folder / "server.log").write_text(text)
    return api.read_facts([str(folder)])


def test_an_error_of_vllms_settings_is_an_error_of_the_start(tmp_path: Path) -> None:
    facts = _facts(
        tmp_path,
        "(APIServer pid=9) pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
        "(APIServer pid=9)   Value error, Drafter of kind Q is missing [type=value_error, input_value=ArgsKwargs(())]\n",
    )
    assert [(i.kind, i.text) for i in facts.incidents] == [("exception", "Value error: Drafter of kind Q is missing")]


def test_warnings_that_quote_an_import_error_are_no_incident(tmp_path: Path) -> None:
    facts = _facts(
        tmp_path,
        "WARNING 03-01 10:00:00 [interface.py:9] Failed to import vllm._C with ImportError: libfoo.so: no such file\n"
        "(EngineCore pid=4) ERROR 03-01 10:00:01 [core.py:9] AttributeError: 'Drafter' object has no attribute 'q'\n"
        "[rank1]: NotImplementedError: no drafts here\n",
    )
    assert [i.text for i in facts.incidents] == [
        "AttributeError: 'Drafter' object has no attribute 'q'",
        "NotImplementedError: no drafts here",
    ]


def test_frames_are_read_from_a_traceback_that_went_through_json(tmp_path: Path) -> None:
    facts = _facts(
        tmp_path,
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File \\"/opt/sglang/srt/managers/scheduler.py\\", line 21, in run_scheduler_process\n'
        "    scheduler.event_loop_normal()\n"
        '  File \\"/opt/sglang/srt/speculative/eagle_worker.py\\", line 33, in verify\n',
    )
    assert facts.incidents[0].frames == ("verify (eagle_worker.py:33)", "run_scheduler_process (scheduler.py:21)")


def test_a_head_with_level_process_and_file_is_sglangs_with_its_ranks(tmp_path: Path) -> None:
    head = "2026-02-11 07:00:{s:02d}.120 {level} 4410 [{tags} {file}:41] "
    facts = _facts(
        tmp_path,
        head.format(s=5, level="INFO", tags="DP1 TP3 EP3", file="scheduler_metrics_mixin.py")
        + "Decode batch, #running-req: 2, #token: 900, token usage: 0.01, accept len: 2.10, accept rate: 0.70, cuda graph: "
        "True, gen throughput (token/s): 90.10, #queue-req: 0\n"
        + head.format(s=9, level="ERROR", tags=" TP3", file="scheduler.py")
        + "Scheduler hit an exception: Traceback (most recent call last):\n",
    )
    assert facts.identity.engine.value == "sglang"
    assert facts.incidents[0].rank == 3
    assert facts.windows.sample[0].stream == "DP1"


def test_an_error_pasted_as_one_paragraph_is_read_line_by_line(tmp_path: Path) -> None:
    head = "(Worker_TP0 pid=91) ERROR 03-02 11:00:0{s} [multiproc_executor.py:597] "
    lines = ("WorkerProc failed to start.", "Traceback (most recent call last):", "AssertionError: 3 drafts for 2 rows")
    text = " ".join(head.format(s=s) + line for s, line in enumerate(lines))
    facts = _facts(tmp_path, f"I tried it, this came: {text}\n")
    assert "AssertionError: 3 drafts for 2 rows" in [i.text for i in facts.incidents]


def test_the_waits_of_one_process_add_up_until_it_goes_on(tmp_path: Path) -> None:
    line = (
        "(EngineCore pid={pid}) INFO 03-02 11:{m:02d}:00 [shm_broadcast.py:681] No available shared memory broadcast block "
        "found in 60 seconds. This happens.\n"
    )
    waits = [line.format(pid=5, m=m) for m in (1, 2, 30, 31, 32, 33)] + [line.format(pid=6, m=40)]
    stall = _facts(tmp_path, "".join(waits)).stall
    assert stall is not None
    assert (stall.waited_s, stall.processes, stall.served_after) == (240.0, 2, False)


def test_only_failures_among_nccls_warnings_are_incidents(tmp_path: Path) -> None:
    facts = _facts(
        tmp_path,
        "n1:7:8 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
        "n1:7:8 [0] misc/ibvwrap.cc:206 NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19\n",
    )
    assert [i.kind for i in facts.incidents] == ["nccl_error"]


def test_an_error_after_the_last_window_is_not_called_a_death(tmp_path: Path) -> None:
    window = (
        "[2026-02-03 09:15:0{s} TP0] Decode batch, #running-req: 4, #token: 5120, token usage: 0.03, cuda graph: True, gen "
        "throughput (token/s): 280.10, #queue-req: 0\n"
    )
    text = window.format(s=1) + window.format(s=5)
    for line, title in (
        ("ValueError: The prompt (length 90) is longer than 80.", "The log ends with an error: ValueError"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "The engine died: a kernel"),
        ("run.sh: line 4: 77 Bus error      (core dumped) python", "The engine died: a process touched memory"),
        (
            "[2026-02-03 09:15:09] Rank 1 scheduler is dead. Look at its log.",
            "The engine died; its first error is not in",
        ),
        (
            "ValueError: token_to_kv_pool_allocator memory leak detected! 3 4 5",
            "The engine died: SGLang's own check found",
        ),
    ):
        (tmp_path / "server.log").write_text(f"{text}{line}\n")
        found = [f.title for f in api.diagnose([str(tmp_path)]).findings if f.code == "STB003"]
        assert found and found[0].startswith(title), (line, found)


def test_waits_of_a_start_that_came_to_its_end_are_no_stall(tmp_path: Path) -> None:
    wait = (
        "(EngineCore pid=5) INFO 03-02 11:{m:02d}:00 [shm_broadcast.py:681] No available shared memory broadcast block found "
        "in 60 seconds. This happens.\n"
    )
    ready = "(APIServer pid=1) INFO:     Application startup complete.\n"
    start = "".join(wait.format(m=m) for m in (1, 2, 3, 4)) + ready
    assert _facts(tmp_path, start).stall is None
    stall = _facts(tmp_path, start + "".join(wait.format(m=m) for m in (30, 31, 32))).stall
    assert stall is not None and stall.waited_s == 180.0
