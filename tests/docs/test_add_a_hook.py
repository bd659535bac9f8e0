"""The template of docs/add-a-hook.md is a set of hooks: found in an engine's source, proven, and timing a worker."""

import sys
import types
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, rows, template, text_of
from tests.instrument.engine import MS, Batch, Clock
from tests.instrument_cli import build_methods
from traceana.environment import hooks
from traceana.environment.engine_source import engines_in
from traceana.environment.hooks import applied, coverage, tables
from traceana_instrument import clocks, readers
from traceana_instrument.hook import Hook
from traceana_instrument.install import Installed
from traceana_instrument.settings import Settings
from traceana_instrument.state import State

PAGE = DOCS / "add-a-hook.md"
WORKER = """
class PonderWorker:
    speculative_num_draft_tokens = 4
    topk = 1
    def forward_batch_generation(self, batch):
        self.ponder()
        self.check()
        self.begin_catch_up()
        self.clock.pass_ms(1)
        self.end_catch_up()
    def ponder(self): self.clock.pass_ms(2)
    def check(self): self.clock.pass_ms(10)
    def begin_catch_up(self): pass
    def end_catch_up(self): pass
"""


@pytest.fixture
def page_rows() -> tuple[Hook, ...]:
    """The rows of the page."""
    names: dict[str, object] = {"Hook": Hook}
    exec(template(PAGE, "hooks"), names)
    found = names["_PONDER_ROWS"]
    assert isinstance(found, tuple)
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with an engine that has the worker."""
    file = tmp_path / "sglang" / "srt" / "speculative" / "ponder_worker.py"
    file.parent.mkdir(parents=True)
    file.write_text(WORKER)
    (tmp_path / "sglang" / "__init__.py").write_text("")
    (tmp_path / "sglang-0.5.31.dist-info").mkdir()
    (tmp_path / "sglang-0.5.31.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.31\n")
    return tmp_path


def test_the_hooks_are_found_in_the_engines_source(
    page_rows: tuple[Hook, ...], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = types.SimpleNamespace(HOOKS=page_rows, READ=("0.4.6", "0.5.31"))
    monkeypatch.setattr(hooks, "tables", lambda: {"sglang": table})
    (source,) = engines_in(site)
    found = coverage(source)
    assert found.known
    assert {
        phase: found.timed("PONDER", phase) for phase in ("cycle", "draft", "verify", "re_extend")
    } == dict.fromkeys(("cycle", "draft", "verify", "re_extend"), "yes")


def test_the_proof_reads_them_out_of_a_release(page_rows: tuple[Hook, ...], site: Path) -> None:
    assert applied(page_rows, lambda module: build_methods.methods(site, module)) == set(page_rows)
    without = (site / "sglang" / "srt" / "speculative" / "ponder_worker.py").read_text().replace("end_catch_up", "stop")
    (site / "sglang" / "srt" / "speculative" / "ponder_worker.py").write_text(without)
    missing = set(page_rows) - applied(page_rows, lambda module: build_methods.methods(site, module))
    assert [hook.target for hook in missing] == ["PonderWorker.begin_catch_up"]


def test_a_worker_with_these_methods_is_timed(page_rows: tuple[Hook, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(clocks, "host_ns", clock)
    state = State(Settings(on=True))
    state.started = True
    module = types.ModuleType(page_rows[0].module)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(WORKER, module.__dict__)
    Installed(state, page_rows).apply(module)
    worker = module.PonderWorker()
    worker.clock = clock
    worker.forward_batch_generation(Batch())
    sums = state.interval.take()
    assert sums is not None
    from traceana_instrument.interval import line

    said = line(sums, 0)
    assert (said["draft_ms"], said["verify_ms"], said["re_extend_ms"], said["total_ms"]) == (2, 10, 1, 13)
    assert clock.ns == 1_000_000_000 + 13 * MS


def test_every_field_of_a_row_is_explained_and_every_reader_that_is_used_exists() -> None:
    table = rows(text_of(PAGE))
    explained = {name.strip("` ") for row in table for name in row[0].split(",")}
    assert explained == set(Hook._fields)
    used = {hook.read for module in tables().values() for hook in module.HOOKS if hook.read}
    assert all(hasattr(readers, name) for name in used)
