"""Texts that try to break a report, and the strategy that makes more of them."""

from __future__ import annotations

from hypothesis import strategies as st

from traceana.report.diagnosis import Diagnosis
from traceana.report.walk import map_texts

TEXTS = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil.example\x1b\\link\x9b31m",
    "[red]markup[/red] [link=http://evil.example]x[/link] \\[bold] :boom:",
    "`code` ``two`` ```three``` ~~~ ````\n```\n</details>\n\n# heading\n",
    "a | b || c \\| d \\\\| e",
    "</details></summary><script>alert(1)</script><img src=x onerror=alert(1)> &lt;b&gt; <!-- -->",
    "@someone @org/team mail@evil.example #123 org/repo#45 GH-99 deadbeefcafe0123",
    "[click](javascript:alert(1)) ![x](http://evil.example/p.png) http://evil.example www.evil.example <http://e.example>",
    "\u202egnp.exe\u202c \u2066x\u2069 zero\u200bwidth \ufeffbom \u2028line\u2029paragraph \u00adsoft \U000e0041tag",
    "*bold* _em_ **b** __b__ ~~s~~ $x^2$ $$y$$ \\* &amp; &#64;someone",
    "- item\n+ item\n1. item\n2) item\n> quote\n---\n===\n\tcode\n    code\n| a |\n|---|",
    "\r\noverwritten\rby\x08\x08\x7f\x00",
    "宽" * 300,
    "M" * 1_000_000,
    "word " * 200_000,
)

_NASTY = "\x1b\x9b\x07\x00\r\n\t`|<>@#\\*_~\u202e\u200b\u2066[](){}&$:/!-=+.'\" ab1"
ANY_TEXT = st.text(st.one_of(st.sampled_from(_NASTY), st.characters()), max_size=60) | st.sampled_from(TEXTS[:-3])


def spoil(diagnosis: Diagnosis, texts: list[str]) -> Diagnosis:
    """The diagnosis with its texts replaced by the hostile ones, in turn; engine names and the like too."""
    count = iter(range(10**9))
    return map_texts(diagnosis, lambda _name, _text: texts[next(count) % len(texts)])
