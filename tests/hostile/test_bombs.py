"""Small files that become large: memory stays bounded, whatever is inside."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.cli import environment
from tests.hostile.logs import decode

MEASURED = (
    "import re, sys\n"
    "from pathlib import Path\n"
    "from traceana.cli.app import main\n"
    "from traceana_parsers import sources\n"
    "sources.MAX_LINE = 8 << 20\n"
    "try: main()\n"
    "except SystemExit as done: code = done.code\n"
    # not ru_maxrss: that of a new program begins with the memory of the process that started it
    "peak = re.search(r'VmHWM:\\s+([0-9]+)', Path('/proc/self/status').read_text())[1]\n"
    "print(code, peak, file=sys.stderr)\n"
)


def measured(command: str, path: Path, timeout: int) -> tuple[subprocess.CompletedProcess[str], int, int]:
    """A command on a file in a process of its own: what it said, its exit code and its peak memory in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, command, str(path)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
        check=False,
    )
    code, kib = map(int, done.stderr.splitlines()[-1].split())
    return done, code, kib


SIZE = 300 << 20
#: the program with its libraries takes about 150 MiB, a line of `MAX_LINE` some times its length
BOUND = 450 << 10  # KiB

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")

BOMBS = {
    "one repeated line": b"hello world, this is a line\n",
    "one endless line": b"a",
}


def bomb(path: Path, piece: bytes) -> None:
    chunk = piece * ((4 << 20) // len(piece))
    member = gzip.compress(chunk, compresslevel=6)
    with path.open("wb") as out:
        for _ in range(SIZE // len(chunk) + 1):
            out.write(member)


@pytest.mark.parametrize("piece", BOMBS.values(), ids=BOMBS.keys())
def test_a_gzip_bomb_is_read_in_bounded_memory(piece: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb.log.gz"
    bomb(path, piece)
    assert path.stat().st_size < 4 << 20
    done, code, kib = measured("diagnose", path, timeout=120)
    assert code == 2
    assert done.stdout == ""
    assert "none of its" in done.stderr
    assert kib < BOUND


def test_a_log_of_a_million_equal_bytes_on_known_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress((decode(1) + " " * 1_000_000 + "\n").encode() * 20))
    _, code, kib = measured("diagnose", path, timeout=60)
    assert code == 0
    assert kib < BOUND
