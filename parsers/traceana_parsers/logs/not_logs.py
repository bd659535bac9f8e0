"""What is given in place of a log: known by its first bytes, with what to do about it."""

from __future__ import annotations

import re

_HOLE = re.compile(rb"\0{16,}")  # a log that was truncated while its writer kept its place begins with zeros
_UTF16 = "UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8"

_SQLITE = "; of an Nsight report give: nsys export --type sqlite rep.nsys-rep"
_NOT_LOGS = (
    (b"SQLite format 3", "an SQLite file; give the file itself, not its bytes through a pipe"),
    (b"PAR1", "a Parquet file; give the store's folder instead"),
    (b"ARROW1", f"an Arrow file that is no table of an Nsight export{_SQLITE}"),
    (b"\xff\xff\xff\xff", f"an Arrow stream that is no table of an Nsight export{_SQLITE}"),
    (b"\x89HDF\r\n", f"an HDF5 file{_SQLITE}"),
    (b'{"data":[', f"an Nsight Systems export as JSON, which is not read{_SQLITE}"),
    (b"PK\x03\x04", "a zip archive; unpack it and give the files inside"),
    (b"\x7fELF", "a program, not a log"),
    (b"%PDF", "a PDF, not a log"),
    (b"\x89PNG", "a picture, not a log"),
    (b"\xff\xd8\xff", "a picture, not a log"),
    (b"\x04\x22\x4d\x18", "an LZ4 file; decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it and give the files inside"),
    (b"\xff\xfe", _UTF16),
    (b"\xfe\xff", _UTF16),
)


def not_a_log(head: bytes) -> str | None:
    """What a file that begins with `head` is instead of a log, and what to give; None for what may be a log."""
    for magic, what in _NOT_LOGS:
        if head.startswith(magic):
            return what
    start = head.lstrip()[:4096]
    if start[:1] == b"{" and (b'"traceEvents"' in start or b'"schemaVersion"' in start):
        return "a PyTorch-profiler trace; give the file itself, not its text through a pipe"
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it and give the files inside"
    text = _HOLE.sub(b"", head)
    if text.count(b"\0") > len(text) // 50 + 8:
        return "binary data, not a log"
    return None
