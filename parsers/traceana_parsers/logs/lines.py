"""A block of bytes to lines: zero-copy Arrow strings with line numbers and offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.sources import Block

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl


@dataclass(slots=True)
class Lines:
    """Lines of one block: `text`, and for each its line number and byte offset in the file."""

    text: pl.Series
    returns: bool  # some line of the block holds a carriage return
    escapes: bool  # some line of the block holds an escape character
    number: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]


def split(block: Block) -> Lines:
    r"""The lines of a block, without their `\n`.

    In a line that is no UTF-8 every byte above 127 becomes `?`, which keeps the offsets true.
    """
    import numpy as np
    import polars as pl
    import pyarrow as pa

    data = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(data == 10)
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.empty(len(ends) + 1, np.int64)
    starts[0] = 0
    starts[1:] = np.minimum(ends + 1, len(data))

    def series() -> pl.Series:
        array = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(ends), [None, pa.py_buffer(starts), pa.py_buffer(block.data)]
        )
        made = pl.from_arrow(array)
        assert isinstance(made, pl.Series)
        return made.cast(pl.String)

    try:
        text = series()
    except pl.exceptions.ComputeError:
        _repair(data, starts, ends)
        text = series()
    text = text.str.strip_chars_end("\n")
    number = np.arange(block.first_line, block.first_line + len(ends), dtype=np.int64)
    return Lines(text, b"\r" in block.data, b"\x1b" in block.data, number, starts[:-1] + block.offset)


def _repair(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Overwrites the bytes above 127 of lines that are no UTF-8; the other lines of the block keep theirs."""
    import numpy as np

    for line in np.unique(np.searchsorted(ends, np.flatnonzero(data > 127))).tolist():
        piece = data[starts[line] : ends[line]]
        try:
            piece.tobytes().decode()
        except UnicodeDecodeError:
            piece[piece > 127] = 63
