"""Ids seen in a trace are found again, whether they lie close together or not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceana_parsers.traces.id_set import IdSet

ids = st.one_of(
    st.integers(-50, 300), st.integers(-(1 << 62), 1 << 62), st.sampled_from([1 - (1 << 63), (1 << 63) - 1])
)


@given(st.lists(st.lists(ids, max_size=30), max_size=5), st.lists(ids, max_size=20))
def test_an_id_is_found_if_and_only_if_it_was_taken(blocks: list[list[int]], others: list[int]) -> None:
    taken = IdSet()
    for block in blocks:
        taken.add(np.unique(np.array(block, np.int64)))
    seen = {one for block in blocks for one in block}
    asked = np.array([*others, *seen], np.int64)
    assert taken.holds(asked).tolist() == [one in seen for one in asked.tolist()]
