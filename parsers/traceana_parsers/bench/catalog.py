"""All forms of JSON objects that benchmarks and servers write. The first that fits an object reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceana_parsers.bench import clients, matrix, sglang, specforge, vllm
from traceana_parsers.bench.form import Form, has
from traceana_parsers.metrics import responses
from traceana_parsers.metrics.server_info import ServerInfo


def forms() -> tuple[Form, ...]:
    """Every form, the more particular ones first."""
    return (
        *sglang.FORMS,
        *vllm.FORMS,
        *matrix.FORMS,
        *clients.FORMS,
        specforge.SPECFORGE,
        *responses.FORMS,
        ServerInfo(),
    )


def form_of(obj: Mapping[str, Any], known: tuple[Form, ...]) -> Form | None:
    """The form of an object; None when it is of no known one."""
    found = next((form for form in known if has(obj, form.needs)), None)
    return specforge.SPECFORGE if found is None and specforge.fits(obj) else found
