"""A real `vllm serve` on CPU for the proof: start it, send prompts, profile, read its counters, stop it."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parents[3] / "instrument" / "traceana_instrument" / "bootstrap"
READY_S = 300

PROMPTS = [
    "import os\nimport sys\n\ndef main(",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, ",
    "for index in range(10):\n    print(",
    "try:\n    import json\nexcept ImportError:\n    ",
    "def read(path):\n    with open(path) as file:\n        return ",
    "import re\n\n_pattern = re.compile(",
    "    if value is None:\n        raise ValueError(",
    "def test_add(self):\n        self.assertEqual(",
]

SPECULATION = {
    "ngram": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    "eagle3": {"method": "eagle3", "num_speculative_tokens": 3},
}


class Server:
    """One server process group; `with Server(...) as server`."""

    def __init__(self, venv: Path, models: Path, out: Path, method: str, tp: int, profile: str = "") -> None:
        self.out, self.method, self.tp = out, method, tp
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = out / "server.log"
        self.traces, self.cycles = out / "traces", out / "cycles"
        self.traces.mkdir(parents=True)
        speculation = dict(SPECULATION[method])
        if method == "eagle3":
            speculation["model"] = str(models / "eagle3")
        profiler = {"profiler": "torch", "torch_profiler_dir": str(self.traces), "torch_profiler_with_stack": False}
        self.command = [
            *(str(venv / "bin" / "vllm"), "serve", str(models / "target"), "--served-model-name", "tiny"),
            *("--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching"),
            *("--host", "127.0.0.1", "--port", str(port), "--max-model-len", "1024", "--max-num-seqs", "8"),
            *("--tensor-parallel-size", str(tp), "--speculative-config", json.dumps(speculation)),
            *("--profiler-config", json.dumps(profiler)),
        ]
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EAGLE3_"))},
            **dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"), "1"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1",
            "VLLM_LOG_STATS_INTERVAL": "5",
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        }
        if tp > 1:
            self.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(tp)))
        if profile:
            self.environ.update(
                PYTHONPATH=str(BOOTSTRAP), EAGLE3_PROFILE=profile, EAGLE3_PROFILE_CYCLES="50",
                EAGLE3_PROFILE_SECONDS="3", EAGLE3_PROFILE_DIR=str(self.cycles),
            )  # fmt: skip

    def __enter__(self) -> "Server":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.out,
                start_new_session=True,
            )
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("/health")
                return self
            except OSError:
                time.sleep(0.5)
        self.__exit__()
        raise RuntimeError(f"the server did not come up: {self.log}")

    def __exit__(self, *_: object) -> None:
        group = self.process.pid  # its own group: started in a new session
        for number, patience in ((signal.SIGINT, 40), (signal.SIGKILL, 10)):
            if self.process.poll() is None:
                os.killpg(group, number)
                try:
                    self.process.wait(patience)
                except subprocess.TimeoutExpired:
                    continue

    def ask(self, path: str, body: object = None, timeout: float = 300) -> str:
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.read().decode()

    def complete(self, prompt: str, tokens: int = 96) -> dict:
        body = {
            "model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True,
        }  # fmt: skip
        choice = json.loads(self.ask("/v1/completions", body))["choices"][0]
        return {"text": choice["text"], "ids": choice.get("token_ids")}

    def complete_all(self, concurrency: int, tokens: int = 96) -> tuple[list[dict], float]:
        """All prompts at a concurrency: the answers in order, and seconds."""
        start = time.monotonic()
        with ThreadPoolExecutor(concurrency) as pool:
            answers = list(pool.map(lambda prompt: self.complete(prompt, tokens), PROMPTS))
        return answers, time.monotonic() - start

    def profile(self, prompts: int) -> None:
        """The first prompts again, under the torch profiler."""
        self.ask("/start_profile", {})
        for prompt in PROMPTS[:prompts]:
            self.complete(prompt, 64)
        self.ask("/stop_profile", {})

    def counters(self) -> dict[str, float]:
        """vLLM's own speculation counters."""
        found = re.findall(r"^vllm:spec_decode_(num_\w+?)_total\{[^}]*\} (\S+)$", self.ask("/metrics"), re.M)
        return {name: float(value) for name, value in found if "per_pos" not in name}

    def cpu_s(self) -> float:
        """CPU seconds that all processes of the server have used: what a busy machine does not blur."""
        total, tick = 0, os.sysconf("SC_CLK_TCK")
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid:  # process group
                total += int(fields[11]) + int(fields[12])
        return total / tick

    def lines(self) -> list[dict]:
        """Values of the EAGLE3_PROFILE lines in the log so far."""
        return [
            json.loads(text) for text in re.findall(r"EAGLE3_PROFILE (\{.*\})", self.log.read_text(errors="replace"))
        ]

    def start_lines(self) -> list[dict]:
        text = self.log.read_text(errors="replace")
        return [json.loads(found) for found in re.findall(r"EAGLE3_PROFILE_START (\{.*\})", text)]


def note(out: Path, **figures: object) -> None:
    """Keep figures for the report of the run."""
    with (out / "figures.jsonl").open("a") as file:
        file.write(json.dumps(figures) + "\n")
