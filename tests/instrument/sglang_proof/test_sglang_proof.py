"""Two released SGLang versions on a CPU, with stubs for what needs a GPU (pytest -m sglang).

Once: tests/instrument/sglang_proof/install.sh DIRECTORY. Then TRACEANA_SGLANG=DIRECTORY pytest -m sglang.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.sglang

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "instrument" / "traceana_instrument"
DRIVE = Path(__file__).with_name("drive.py")
HOME = Path(os.environ.get("TRACEANA_SGLANG", "/nowhere"))
VERSIONS = ("0.5.9", "0.5.12")


def drive(version: str, path: list[Path], *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    if not (HOME / f"sglang-{version}").exists():
        pytest.skip("TRACEANA_SGLANG names no folder made by install.sh")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EAGLE3_"))}
    path = [*path, HOME / f"sglang-{version}"]
    return subprocess.run(
        [HOME / "venv" / "bin" / "python", DRIVE, *args], capture_output=True, text=True, timeout=600, check=False,
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path)), "CUDA_VISIBLE_DEVICES": "", **environ},
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_every_row_of_the_table_is_in_place_in_the_imported_modules(version: str) -> None:
    done = drive(version, [PACKAGE / "bootstrap"], "applied", EAGLE3_PROFILE="comm")
    found = json.loads(done.stdout.splitlines()[-1]) if done.stdout else pytest.fail(done.stderr[-2000:])
    assert found["version"] == version
    assert found["missing"] == [] and found["unexpected"] == []
    assert not any("speculative.eagle" in name for name in found["failed"]), found["failed"]
    assert found["expected"] > 10


@pytest.mark.parametrize("which", ["V1", "V2"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_engines_own_cycle_is_timed_in_its_parts(version: str, which: str, tmp_path: Path) -> None:
    # the distribution as pip would have installed it: SGLang finds the entry point by itself
    info = tmp_path / "traceana-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: traceana\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\ntraceana = traceana_instrument.plugin:register\n")
    done = drive(version, [tmp_path, PACKAGE.parent], "cycle", which)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [json.loads(text) for text in re.findall(r"EAGLE3_PROFILE (\{.*\})", done.stderr)]
    assert (line["cycles"], line["batch"], line["k"], line["clock"]) == (20, 2, 3, "host")
    # what the stand-ins sleep; a busy machine sleeps longer
    for key, ms in (("draft_ms", 15), ("verify_ms", 30), ("re_extend_ms", 5)):
        assert ms <= line[key] < ms * 2 + 10, line
    if which == "V1":
        assert line["accept_length"] == 2.0
