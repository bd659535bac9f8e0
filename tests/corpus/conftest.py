"""The shared corpus of real inputs, where it lies beside the checkout; tests skip without it."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real inputs is not beside this checkout")
    return CORPUS
