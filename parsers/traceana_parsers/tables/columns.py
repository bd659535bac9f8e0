"""What a column is, and the columns that many tables share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `dtype` is i32, i64, f64, str, bool, ts (milliseconds, the server's local clock) or list_f64."""

    name: str
    dtype: str
    unit: str
    meaning: str


WHERE = (
    Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
    Column("line", "i64", "", "line number in the file, from 1, as an editor counts"),
    Column("byte_offset", "i64", "bytes", "offset of the line in the (decompressed) file"),
)
WHO = (
    Column("ts", "ts", "", "time printed on the line, the server's local clock; the year is assumed where not printed"),
    Column("dp", "i32", "", "data-parallel rank"),
    Column("pp", "i32", "", "pipeline-parallel rank"),
    Column("tp", "i32", "", "tensor-parallel rank"),
    Column("ep", "i32", "", "expert-parallel rank"),
    Column("proc", "str", "", "process name printed in the line's prefix, e.g. EngineCore_DP0"),
    Column("pid", "i64", "", "process id printed in the line's prefix"),
)
