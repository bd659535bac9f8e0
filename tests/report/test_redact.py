"""Nothing private reaches strangers, and no figure is lost on the way."""

from __future__ import annotations

import time
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.examples import cliff, crash, ranks
from traceana.facts.model import Evidence
from traceana.report.diagnosis import Diagnosis
from traceana.report.interface import FORMATS, render
from traceana.report.redact import Redactor
from traceana.report.walk import map_texts

KEY_BLOCK = "-----BEGIN_RSA_PRIVATE_KEY-----\nMIIEowIBAAKCAQEAvNxQ\nq7sPzT\n-----END_RSA_PRIVATE_KEY-----".replace(
    "_", " "
)

#: a line as a log may hold it, and what must not be left of it; keys are cut in two, or secret scanners take them for real
PRIVATE = [
    ("connect to 10.20.30.40:29500 failed", ["10.20.30.40"]),
    ("peer fe80::1ff:fe23:4567:890a%eth0 is up", ["fe80::1ff", "890a"]),
    ("GID 2001:0db8:0000:0000:0000:ff00:0042:8329", ["2001:0db8", "8329"]),
    ("dgx-a100-07:4211:4390 [3] NCCL INFO Bootstrap : Using eth0:192.168.7.21<0>", ["dgx-a100-07", "192.168.7.21"]),
    ("wolke7:4211:4390 [0] NCCL INFO comm 0x1 init; later wolke7 said no", ["wolke7"]),
    ("python -m server --host gpubox.example.net --port 30000", ["gpubox", "example.net"]),
    ("args: {'host': 'kraken', 'port': 1}", ["kraken"]),
    ("MASTER_ADDR=trainer-0.jobs.svc.cluster.local", ["trainer-0", "jobs"]),
    ("The client socket has failed to connect to [zeus-04]:29500", ["zeus-04"]),
    ("reached ip-10-0-1-10.eu-west-1.compute.internal", ["10-0-1-10", "eu-west-1"]),
    ("GET http://metrics.acme-corp.example:9090/tenant/blue/q?sig=zzTOPsecret", ["acme-corp", "blue", "zzTOP"]),
    ("https://bob:hunter2pw@git.acme.example/x.git", ["hunter2pw", "bob:", "acme"]),
    ("s3://AK" "IAIOSFODNN7EXAMPLE:wJalrXUtnFEMI@blue-bucket/team/run.log", ["AKIAIOSF", "wJalr", "blue-bucket", "team"]),
    ("gs://blue-bucket/team/run.log?X-Goog-Signature=deadbeef99", ["blue-bucket", "deadbeef99"]),
    ("opened /home/mallory/work/run7/server.log", ["mallory", "run7"]),
    ("opened /Users/mallory/run.log, and mallory closed it", ["mallory"]),
    (r"opened C:\Users\mallory\Documents\run.log", ["mallory", "Documents"]),
    ("cwd ~mallory/work/x", ["mallory"]),
    ("File '/mnt/My Team/blue project/x.py'", ["My Team", "blue project"]),
    ("model_path=/data/mallory/models/secret-llama", ["mallory", "/data"]),
    ("see /srv/blue\\ team/models/llama", ["blue", "team"]),
    ("from /root/blue/team/x.log", ["/root", "blue"]),
    ("mail mallory.o-neil@acme.example please", ["mallory.o-neil", "acme"]),
    ("ssh mallory@kraken uptime", ["mallory", "kraken"]),
    ("USER=mallory LOGNAME=mallory", ["mallory"]),
    ("token hf" "_QwErTyUiOpAsDfGhJkLz in use", ["hf_Qw", "UiOp"]),
    ("sk" "-proj-abcDEF123456_xyz-789 and sk" "-ant-api03-AAAAbbbbCCCC", ["abcDEF", "AAAAbbbb"]),
    ("ghp" "_16C7e42F292c6912E7710c838347Ae178B4a", ["16C7e42F"]),
    ("github_pat" "_11ABCDEFG0abcdefghijkl_mnopqrstuv", ["11ABCDEFG0"]),
    ("AK" "IAIOSFODNN7EXAMPLE", ["AKIAIOSF"]),
    ("AI" "zaSyA-1234567890abcdefghijklmnopqrstu", ["AIzaSy"]),
    ("xox" "b-123456789012-abcdefGHIJKL", ["xoxb-1234"]),
    ("ey" "JhbGciOiJIUzI1NiJ9.ey" "JzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3", ["eyJhbG", "dozjgN"]),
    ("Authorization: Bearer abc.DEF-123 and Basic dXNlcjpwYXNz", ["abc.DEF", "dXNlcj"]),
    ("curl -H 'X: 1' Bearer zyxwvu987654", ["zyxwvu"]),
    ("ServerArgs(model='m', api_key='k-1234-abcd', port=1)", ["k-1234"]),
    ('{"admin_api_key": "k 12\\" 34", "tp_size": 8}', ["k 12", "34"]),
    ("vllm serve m --api-key letmein1 --port 80", ["letmein1"]),
    ("--api-key=letmein1", ["letmein1"]),
    ("token=abcd1234efgh password=hunter2 client_secret: sh hh", ["abcd1234", "hunter2", "sh hh"]),
    ("HF_TOKEN=abcdefg WANDB_API_KEY=0123456789", ["abcdefg", "0123456789"]),
    ("ACME_CREDENTIALS: 'top sekrit'", ["sekrit"]),
    ("MYKEYFILE=zuvaq9 DB_PASSWORD: 12345678", ["zuvaq9", "12345678"]),
    (KEY_BLOCK, ["MIIEow", "q7sPzT"]),
    (KEY_BLOCK[:60], ["MIIEow"]),
    ("Received request cmpl-1: prompt: 'my \\' diagnosis', params: SamplingParams(n=1)", ["diagnosis"]),
    ('{"prompt": "my illness", "max_tokens": 4}', ["illness"]),
    ("GenerateReqInput(rid='1', text='my illness', sampling_params={})", ["illness"]),
    ("messages=[{'role': 'user', 'content': 'my illness'}]", ["illness"]),
    ("{'role': 'user', 'content': \"my illness isn't\"}", ["illness"]),
    ("params: SamplingParams(n=1), prompt_token_ids: [15496, 995, 318], lora", ["15496", "995"]),
    ("Prompt: 'a', Generated text: my illness\nis bad", ["illness", "bad"]),
    ("prompt: Once upon a time", ["Once", "time"]),
    ("link/ether 0c:42:a1:9b:7e:3f up", ["0c:42", "7e:3f"]),
]  # fmt: skip

#: what a reader needs and nobody is hurt by
HARMLESS = [
    "SGLang 0.5.12.post1, vLLM v0.20.2rc1.dev249+cu130",
    "NCCL version 2.27.7+cuda12.9",
    "NCCL version 2.27.7.1 and nccl==2.27.7.1, tensorrt 10.3.0.26, cudnn 9.10.2.21",
    "[2026-05-15 12:34:56 DP0 TP3] Decode batch. #running-req: 8, #token: 2108, token usage: 0.02, accept len: 2.17, "
    "accept rate: 0.54, cuda graph: True, gen throughput (token/s): 178.86, #queue-req: 0, ",
    "[2026-05-15 12:34:56 TP0] Prefill batch. #new-seq: 1, #new-token: 28, #cached-token: 0, token usage: 0.00",
    "(APIServer pid=1) INFO 05-15 03:14:55 [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 206.1 tokens/s, Running: 8 reqs, GPU KV cache usage: 3.1%",
    "SpecDecoding metrics: Mean acceptance length: 2.58, Accepted throughput: 126.10 tokens/s, Drafted: 2400 tokens, "
    "Per-position acceptance rate: 0.789, 0.501, 0.290",
    "NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 0.1/0.1, type SYS/SYS",
    "NCCL INFO Channel 00/0 : 0[17000] -> 1[31000] via P2P/CUMEM",
    "server on 0.0.0.0:30000 and 127.0.0.1:5000, [::1]:80, localhost",
    "num_draft_tokens=3, speculative_num_draft_tokens 4, max_total_num_tokens=319232, tokenizer_mode='auto'",
    "ServerArgs(api_key=None, admin_api_key=None, host='0.0.0.0', tp_size=8, skip_tokenizer_init=False)",
    "allreduce 90.1 us, 4.05 ms/forward, 61.7 tok/s, 1/2, 12.0/12.0, and/or",
    "HTTP POST /v1/chat/completions and GET /get_server_info, GET /health",
    "File '/usr/local/lib/python3.12/dist-packages/torch/cuda/__init__.py', line 61",
    "at::native::add, c10::Error, std::vector, ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclArgs<4096ul>)",
    "request 7b0a2c1e-5d5f-4f6a-9a53-0a4b8f1f9c11 finished",
    "key: verify is the longest phase; the token budget: too small",
    "see https://docs.vllm.ai/en/latest/features/spec_decode.html and https://github.com/sgl-project/sglang/issues/8393",
    "example-org/GLM-5.1-NVFP4",
    "rank 3 of 8, node 0, GPU 0000:17:00.0, ranks 0:1:2:3:4:5:6:7",
    "Namespace(hf_name=None, hf_output_len=None, hf_overrides={}, npm_config_dir=1, r8_g8_b8_a8_unorm)",
    "pos: --token-targeting exact, speculative_token_map=None, eos_token_id=2, Inter-token Latency: 8.2 ms",
    "NCCL_P2P_LEVEL=SYS NCCL_PROTO=LL CUDA_VISIBLE_DEVICES=0,1,2,3",
    "EAGLE3_PROFILE {\"v\":1,\"rank\":0,\"k\":3,\"draft_ms\":1.91,\"verify_ms\":29.97,\"clock\":\"cuda_event\"}",
]  # fmt: skip


@pytest.mark.parametrize(("line", "gone"), PRIVATE, ids=[line[:40] for line, _ in PRIVATE])
def test_private_parts_of_a_log_line_are_gone(line: str, gone: list[str]) -> None:
    shown = Redactor().text(line)
    assert [word for word in gone if word in shown] == [], shown


@pytest.mark.parametrize("line", HARMLESS, ids=[line[:40] for line in HARMLESS])
def test_figures_versions_and_settings_stay(line: str) -> None:
    assert Redactor().text(line) == line.rstrip() + line[len(line.rstrip()) :]


@pytest.mark.parametrize("line", [line for line, _ in PRIVATE] + HARMLESS)
def test_redacting_twice_changes_nothing_more(line: str) -> None:
    redactor = Redactor()
    once = redactor.text(line)
    assert redactor.text(once) == once


def test_the_same_machine_keeps_the_same_name_so_that_ranks_stay_tellable() -> None:
    redactor = Redactor()
    first = redactor.text("nodeA-01:11:12 [0] NCCL INFO x at 10.0.0.5")
    second = redactor.text("nodeB-02:21:22 [0] NCCL INFO x at 10.0.0.6")
    again = redactor.text("lost nodeA-01.cluster.local (10.0.0.5)")
    assert first == "<host-1>:11:12 [0] NCCL INFO x at <ip-1>"
    assert second == "<host-2>:21:22 [0] NCCL INFO x at <ip-2>"
    assert again == "lost <host-1> (<ip-1>)"


def test_files_of_one_name_in_two_directories_stay_apart() -> None:
    redactor = Redactor()
    assert redactor.path("/data/alice/a/server.log") == "…/server.log"
    assert redactor.path("/data/alice/b/server.log") == "…2/server.log"
    assert redactor.path("/data/alice/a/server.log") == "…/server.log"
    assert redactor.path("/home/alice/b/server.log") == "~/…/server.log"
    assert redactor.path("~/…/server.log") == "~/…/server.log"
    assert redactor.path("logs/server.log") == "logs/server.log"
    assert redactor.path("/data/alice/models/Llama 3") == "…/Llama 3"


def test_a_name_learnt_at_the_end_is_gone_at_the_beginning() -> None:
    early = Evidence("mallory_run.log", 1, text="mallory started it")
    late = Evidence("x.log", 2, text="cwd /home/mallory/run")
    shown = Redactor().diagnosis(_with_evidence(early, late))
    assert "mallory" not in repr(shown)
    assert "<user-1>" in repr(shown)


def test_a_common_word_that_is_also_a_user_name_does_not_eat_the_report() -> None:
    redactor = Redactor()
    redactor.text("cwd /home/vllm/x, /home/server/x, server:1:2 [0] NCCL INFO")
    assert redactor.text("vllm server: 61.7 tok/s") == "vllm server: 61.7 tok/s"


def _with_evidence(*evidence: Evidence) -> Diagnosis:
    base = cliff()
    finding = type(base.findings[0])("X", "x", "t", "info", "low", "w", evidence=evidence)
    return Diagnosis(
        run=base.run, verdict=base.verdict, cycle=base.cycle, acceptance=base.acceptance, findings=(finding,)
    )


#: one secret of each sort; NAME stands for the field, so that no two fields hold the same text
PLANTED = (
    " api_key=NAMEzq1key from gpu-NAMEzq2host.internal at 10.9.8.7 /home/NAMEzq3user/NAMEzq4dir/x "
    "hf_NAMEzq5token0123456789 NAMEzq6mail@acme.example prompt: 'NAMEzq7prompt'"
)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("example", [cliff, crash, ranks])
def test_a_secret_in_any_field_is_in_no_redacted_report(fmt: str, example: object) -> None:
    seen = []

    def plant(name: str, text: str) -> str:
        seen.append(name)
        return text + PLANTED.replace("NAME", name.replace("_", "").replace("-", "") + "n")

    diagnosis = map_texts(example(), plant)  # type: ignore[operator]
    assert len(set(seen)) > 20
    shown = render(diagnosis, fmt, redact=True, width=160)
    for name in set(seen):
        marked = name.replace("_", "").replace("-", "") + "nzq"
        assert marked not in shown.replace("\n", ""), (name, shown[max(0, shown.find(marked) - 100) :][:200])
    assert "10.9.8.7" not in shown
    assert "acme" not in shown


def test_what_is_not_redacted_is_shown_as_it_is() -> None:
    diagnosis = _with_evidence(Evidence("/data/alice/x.log", 1, text="from 10.9.8.7"))
    assert "/data/alice/x.log" in render(diagnosis, "terminal", width=160)
    assert "10.9.8.7" in render(diagnosis, "json")
    assert "10.9.8.7" not in render(diagnosis, "markdown")
    assert "10.9.8.7" in render(diagnosis, "markdown", redact=False)


def test_numbers_and_the_shape_of_the_document_are_untouched() -> None:
    assert _skeleton(Redactor().diagnosis(cliff())) == _skeleton(cliff())
    assert Redactor().diagnosis(cliff()) == cliff()  # nothing in it is private


def _skeleton(value: object) -> object:
    if isinstance(value, str):
        return "text"
    if isinstance(value, tuple):
        return [_skeleton(item) for item in value]
    if isinstance(value, dict):
        return {key: _skeleton(item) for key, item in value.items()}
    if is_dataclass(value):
        return {part.name: _skeleton(getattr(value, part.name)) for part in fields(value)}
    return value


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "key" * 300_000, "a=" * 400_000, "'a='" * 200_000, ")" * 500_000 + " x", "/a" * 400_000,
     "1.1." * 200_000, "a@" * 400_000, "-----BEGIN" " PRIVATE KEY-----" * 30_000, "a-1-1-1-" * 90_000, "[a" * 400_000,
     ":a" * 400_000, "a." * 400_000, "\\'" * 400_000, "token " * 150_000, "x: '" * 200_000, "a:1:" * 200_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_long_hostile_line_takes_no_time(text: str) -> None:
    begin = time.process_time()
    shown = Redactor().text(text)
    assert time.process_time() - begin < 1.0
    assert len(shown) < 4_200


def test_a_secret_at_the_edge_of_what_is_shown_is_not_cut_open() -> None:
    for edge in (4000, 8000):
        for shift in range(-30, 30, 3):
            text = ("x " * edge)[: edge - shift] + " hf_abcdefghijklmnopqrstuvwxyz0123 " + "y " * 5000
            assert "hf_" not in Redactor().text(text)


def test_a_secret_cut_off_by_the_limit_does_not_show_its_beginning() -> None:
    secrets = ("hf_" + "A1" * 48 + " ") * 80  # each becomes a short placeholder, so the end of the window is shown
    text = secrets[:7993] + " hf_zyxwvutsrqponmlkjihgfedcba9876543210" + " more" * 100
    shown = Redactor().text(text)
    assert "<key-1>" in shown
    assert "hf_" not in shown


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_redacted_and_redacting_again_changes_nothing(text: str) -> None:
    redactor = Redactor()
    redactor.text(text)
    once = redactor.text(text)
    assert redactor.text(once) == once
