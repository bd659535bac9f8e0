"""A server of real processes for tests: a launcher and spawned workers, whose titles and environments look like SGLang's.

Written into a folder as the package `sglang`, started with `python -m sglang.launch_server`. Workers overwrite their
command line and environment the way setproctitle does (SPT_NOENV spares the environment).
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LAUNCH_SERVER = textwrap.dedent('''
    """python -m sglang.launch_server: starts FAKE_WORKERS workers by spawn, says their pids, waits for its input to end."""
    import json
    import multiprocessing
    import os
    import sys

    from sglang.worker import work

    if __name__ == "__main__":
        plan = json.loads(os.environ.get("FAKE_PLAN", "{}"))
        os.environ.update(plan.get("engine_sets", {}))
        context = multiprocessing.get_context("spawn")
        workers = []
        for rank in range(plan.get("workers", 2)):
            lost = plan.get("lost", {}).get(str(rank), [])
            kept = {name: os.environ.pop(name) for name in lost if name in os.environ}
            ready = context.Event()
            process = context.Process(target=work, args=(rank, plan.get("titles", True), plan.get("maps"), ready))
            process.start()
            os.environ.update(kept)
            ready.wait(60)
            workers.append(process)
        print(json.dumps([process.pid for process in workers]), flush=True)
        sys.stdin.read()
        for process in workers:
            process.kill()
''')
WORKER = textwrap.dedent('''
    import ctypes
    import mmap
    import os
    import time


    def set_title(title):
        """Overwrite the command line, and the environment behind it unless SPT_NOENV is set, as setproctitle does."""
        with open("/proc/self/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
        arguments, arguments_end, block, block_end = (int(field) for field in fields[45:49])
        end = arguments_end if os.environ.get("SPT_NOENV") else block_end
        ctypes.memset(arguments, 0, end - arguments)
        ctypes.memmove(arguments, title.encode(), min(len(title), arguments_end - arguments - 1))


    def work(rank, titled, maps, ready):
        if maps:
            with open(maps, "rb") as stream:
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if titled:
            set_title("sglang::scheduler_TP%d" % rank)
        ready.set()
        while os.getppid() != 1:
            time.sleep(0.2)
''')


@dataclass(frozen=True)
class Running:
    """A running fake server."""

    pid: int
    workers: tuple[int, ...]


@contextmanager
def running(folder: Path, environ: dict[str, str], *arguments: str, **plan: object) -> Iterator[Running]:
    """Starts the server with exactly this environment (and what Python needs) and ends it."""
    package = folder / "sglang"
    package.mkdir(exist_ok=True)
    for name, text in (("__init__", ""), ("launch_server", LAUNCH_SERVER), ("worker", WORKER)):
        (package / f"{name}.py").write_text(text)
    started = subprocess.Popen(
        [sys.executable, "-m", "sglang.launch_server", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "FAKE_PLAN": json.dumps(plan), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdin and started.stdout
        try:
            yield Running(started.pid, tuple(json.loads(started.stdout.readline())))
        finally:
            started.stdin.close()
            started.wait(30)
