"""Collectives and element types in torch's words, as names and sizes of the tables."""

from __future__ import annotations

#: bytes of an element, by torch's names (`Float`, `c10::BFloat16`, `long int`) in lower case without the namespace
_ELEMENT_BYTES = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "int": 4, "long": 8, "long int": 8, "short": 2, "byte": 1,
    "char": 1, "unsigned char": 1, "signed char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip

#: part of a collective's name (lower case, underscores dropped) -> name in the table; the first that occurs decides
_COLLECTIVES = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
)


def element_bytes(dtype: str | None) -> int | None:
    """Bytes per element of a torch dtype as profilers spell it, or None."""
    return _ELEMENT_BYTES.get((dtype or "").rsplit("::", 1)[-1].lower())


def collective_name(text: str | None) -> str | None:
    """A collective's name in the table's words (`_allgather_base` -> all_gather), `unknown`, or None for no text."""
    if not text:
        return None
    bare = text.lower().replace("_", "")
    return next((name for part, name in _COLLECTIVES if part in bare), "unknown")


def message_bytes(elements: int, dtype: str | None) -> int | None:
    """Bytes of a message from its number of elements and dtype; None where either is missing."""
    size = element_bytes(dtype)
    return elements * size if elements >= 0 and size else None
