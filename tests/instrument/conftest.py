"""A clock that stands still. Tests that need a real engine run only when they are asked for: pytest -m vllm, pytest -m sglang."""

import pytest

from tests.instrument.engine import Clock
from traceana_instrument import clocks


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("-m") or ""
    for item in items:
        for engine in ("vllm", "sglang"):
            if item.get_closest_marker(engine) and engine not in asked:
                item.add_marker(pytest.mark.skip(reason=f"needs a real engine: pytest -m {engine}"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(clocks, "host_ns", made)
    return made
