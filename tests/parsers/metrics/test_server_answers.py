"""/server_info of SGLang, and what servers say of single requests."""

import json
from pathlib import Path

import pytest

from tests.parsers.bench.results import attrs, got

INFO = {
    "model_path": "acme/m-8b",
    "tokenizer_path": "acme/m-8b",
    "tp_size": 8,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": None,
    "api_key": "sk-secret",
    "admin_api_key": "sk-other",
    "internal_states": [
        {
            "speculative_algorithm": "EAGLE3",
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
            "last_gen_throughput": 61.7,
            "avg_spec_accept_length": 2.05,
            "memory_usage": {"weight": 60.1, "token_capacity": 419000},
            "step_time_dict": {"1": [0.0332, 0.0331, 0.0345], "8": [0.051], "x": [1.0], "2": []},
            "env_vars": {"NCCL_PROTO": "LL", "SGLANG_RECORD_STEP_TIME": "1", "HOME": "/root"},
        },
        {"avg_spec_accept_length": 1.98},
    ],
    "version": "0.5.19",
}


def test_settings_are_those_the_scheduler_resolved(tmp_path: Path) -> None:
    read = got(tmp_path, json.dumps(INFO))
    settings = {r["name"]: (r["value"], r["origin"]) for r in read.rows("settings")}
    assert settings["speculative_num_steps"] == ("3", "server_info")
    assert settings["tp_size"] == ("8", "server_info")
    assert settings["version"] == ("0.5.19", "server_info")
    assert settings["NCCL_PROTO"] == ("LL", "nccl_env")
    assert "HOME" not in settings
    assert not {"api_key", "admin_api_key", "memory_usage", "internal_states"} & settings.keys()
    assert read.report.format == "server_info"


def test_what_the_schedulers_measured(tmp_path: Path) -> None:
    rows = got(tmp_path, json.dumps(INFO, indent=1)).rows("metrics")
    values = {(r["name"], json.loads(r["labels"])["dp"]): r["value"] for r in rows}
    assert values["server_info:avg_spec_accept_length", "0"] == 2.05
    assert values["server_info:avg_spec_accept_length", "1"] == 1.98
    assert values["server_info:memory_usage_token_capacity", "0"] == 419000


def test_step_times_are_a_point_per_batch_size(tmp_path: Path) -> None:
    one, eight = got(tmp_path, json.dumps(INFO)).rows()
    assert (one["concurrency"], one["step_ms"], eight["concurrency"], eight["step_ms"]) == (
        1,
        pytest.approx(33.2),
        8,
        pytest.approx(51.0),
    )
    assert (one["num_steps"], one["topk"], one["num_draft_tokens"], one["speculative"]) == (3, 1, 4, True)
    assert attrs(one)["samples"] == 3
    assert "output_tps" not in one


def test_bench_serving_lines_carry_the_servers_settings(tmp_path: Path) -> None:
    line = {
        "backend": "sglang", "max_concurrency": 1, "duration": 10.0, "completed": 2, "total_output_tokens": 617,
        "total_output_tokens_retokenized": 617, "output_throughput": 61.7, "accept_length": 2.05, "server_info": INFO,
    }  # fmt: skip
    read = got(tmp_path, json.dumps(line) + "\n")
    point = read.point
    assert (point["num_steps"], point["model"], point["speculative"]) == (3, "acme/m-8b", True)
    assert {r["name"] for r in read.rows("settings")} >= {"tp_size", "NCCL_PROTO"}
    assert "sk-secret" not in str(read.rows("settings")) + str(point)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spec_verify_ct": 40}, {"cycles": 40}),
        (
            {"spec_verify_ct": 40, "spec_accept_token_num": 41, "spec_draft_token_num": 120},
            {"accepted": 41, "drafted": 120},
        ),
        (
            {"spec_verify_ct": 40, "spec_accepted_drafts": 41, "spec_proposed_drafts": 120},
            {"accepted": 41, "drafted": 120},
        ),
        (
            {
                "spec_num_correct_drafts": 41,
                "spec_num_proposed_drafts": 120,
                "spec_correct_drafts_histogram": [10, 20, 9, 1],
            },
            {"accepted": 41, "drafted": 120, "histogram": [10, 20, 9, 1]},
        ),
        ({"spec_accept_histogram": [10, 20, 9, 1]}, {"histogram": [10, 20, 9, 1]}),
    ],
    ids=["0.4.6", "0.5.6", "0.5.11", "0.5.21", "0.5.9"],
)
def test_fields_of_a_request_by_the_names_of_each_version(
    tmp_path: Path, fields: dict[str, object], expected: dict[str, object]
) -> None:
    answer = {
        "text": "abc",
        "meta_info": {"id": "x", "prompt_tokens": 12, "completion_tokens": 82, "e2e_latency": 1.5, **fields},
    }
    read = got(tmp_path, json.dumps(answer) + "\n" + json.dumps(answer) + "\n")
    first, second = read.rows("bench_requests")
    assert {name: first.get(name) for name in expected} == expected
    assert (first["input_tokens"], first["output_tokens"], first["e2e_ms"]) == (12, 82, 1500)
    assert (first["request"], second["request"], second["line"]) == (0, 1, 2)
    assert first["text"] == second["text"]
    assert "point" not in first
    assert read.report.format == "sglang_response"


def test_a_list_of_answers_is_read_one_by_one(tmp_path: Path) -> None:
    answer = {"text": "abc", "meta_info": {"completion_tokens": 8, "spec_verify_ct": 3}}
    read = got(tmp_path, json.dumps([answer] * 5))
    assert [r["request"] for r in read.rows("bench_requests")] == [0, 1, 2, 3, 4]


def test_an_openai_answer_without_speculative_fields(tmp_path: Path) -> None:
    answer = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 9},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}],
    }  # fmt: skip
    (row,) = got(tmp_path, json.dumps(answer)).rows("bench_requests")
    assert (row["input_tokens"], row["output_tokens"]) == (5, 9)
    assert "cycles" not in row
    assert "text" in row


def test_the_records_of_aiperf_are_requests_with_their_chunks(tmp_path: Path) -> None:
    def record(phase: str) -> str:
        return json.dumps(
            {
                "metadata": {"benchmark_phase": phase, "request_start_ns": 1_770_110_120_000_000_000},
                "metrics": {
                    "request_latency": {"value": 297.5, "unit": "ms"},
                    "time_to_first_token": {"value": 0.25, "unit": "s"},
                    "inter_chunk_latency": {"value": [5.0, 6.0, 4.0], "unit": "ms"},
                    "output_sequence_length": {"value": 9, "unit": "tokens"},
                },
                "error": None,
            }
        )

    rows = got(tmp_path, f"{record('warmup')}\n{record('profiling')}\n").rows("bench_requests")
    assert len(rows) == 1
    row = rows[0]
    assert (row["chunks"], row["decode_ms"], row["ttft_ms"], row["e2e_ms"]) == (3, 15.0, 250.0, 297.5)
    assert (row["output_tokens"], row["start_s"]) == (9, 1_770_110_120)
