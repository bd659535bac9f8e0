"""What a variable's name is worth: whether the NCCL or the engine of this server reads it, and what was meant."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from traceana.facts.nccl_variables import status

_ENGINE_PREFIXES = {"sglang": ("SGLANG_", "SGL_"), "vllm": ("VLLM_",)}


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether anybody reads the name. `read`: None is not known. `why`: one clause where the answer is no."""

    read: bool | None
    why: str = ""
    instead: str | None = None
    code: str = ""  # rule that explains it


def standing(name: str, nccl: str | None, engine: str | None, engine_names: frozenset[str]) -> Standing:
    """What the name is to this server.

    Args:
        name: the variable.
        nccl: version of NCCL, None where not known (then the newest that was read stands for it).
        engine: sglang or vllm.
        engine_names: every name that the engine's source holds; empty where the source was not found.
    """
    if name.startswith("NCCL_"):
        return _nccl(name, nccl)
    if engine and engine_names and name.startswith(_ENGINE_PREFIXES[engine]):
        return _of_engine(name, engine, engine_names)
    return Standing(None)


def _nccl(name: str, nccl: str | None) -> Standing:
    found = status(name, nccl)
    which = f"NCCL {nccl}" if nccl else "NCCL"
    if found.state == "unknown":
        return Standing(False, "no NCCL reads it", found.instead, "ENV003")
    if found.state == "removed":
        return Standing(False, f"{which} no longer reads it ({found.note or 'gone'})", found.instead, "ENV003")
    if found.state == "too_new" and nccl:
        return Standing(False, f"{which} does not read it yet ({found.note})", found.instead, "ENV003")
    if found.state == "foreign":
        owner = found.note or f"{found.owner} reads it, not NCCL"
        return Standing(False, owner, found.instead, "ENV004")
    return Standing(True if found.state in ("known", "deprecated") else None)


def _of_engine(name: str, engine: str, known: frozenset[str]) -> Standing:
    alias = name.replace("SGL_", "SGLANG_", 1) if name.startswith("SGL_") else name  # SGLang copies one to the other
    if name in known or alias in known:
        return Standing(True)
    close = get_close_matches(alias, known, n=1, cutoff=0.85)
    return Standing(False, f"the installed {engine} holds no such name", close[0] if close else None, "ENV002")
