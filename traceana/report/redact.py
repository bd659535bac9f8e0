"""Takes secrets and names out of a Diagnosis before it is shown to strangers.

The same secret gets the same placeholder within one report (`<ip-1>`, `<host-2>`), so that ranks and machines stay
tellable. A name learnt in one place (a home path, an NCCL prefix) is replaced wherever it stands. Figures stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import TypeVar

from traceana.report import secret_shapes as known
from traceana.report.diagnosis import Diagnosis
from traceana.report.escape import FIELD_LIMIT
from traceana.report.paths import PathShortener
from traceana.report.walk import map_texts

T = TypeVar("T")

#: how much of a field is looked at; what is kept of it is at most FIELD_LIMIT characters
_WINDOW = 2 * FIELD_LIMIT

#: fields this program fills from its own vocabulary: learnt names are not replaced in them
_VOCABULARY = (
    "code codes clear name severity confidence provenance schema format speculation limiter active method engine"
)
_OWN_WORDS = frozenset(_VOCABULARY.split())
_PATH_FIELDS = frozenset({"path", "paths", "model", "draft_model"})
_VERSION_FIELDS = frozenset({"version", "nccl_version"})


class Redactor:
    """Replaces secrets; one instance per report, because it remembers which placeholder stands for what."""

    def __init__(self) -> None:
        self._placeholders: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}  # learnt name, lower case -> placeholder
        self._any_name: re.Pattern[str] | None = None
        self._paths = PathShortener(self._learn_user)

    def diagnosis(self, diagnosis: Diagnosis) -> Diagnosis:
        """A copy of a Diagnosis without secrets."""
        return self.document(diagnosis)

    def document(self, document: T) -> T:
        """A copy of any dataclass of plain data without secrets.

        Texts are read twice: names learnt late are replaced early too.
        """
        map_texts(document, self._field)
        return map_texts(document, self._field)

    def text(self, text: str) -> str:
        """The text without secrets, at most `FIELD_LIMIT` characters of it. Names learnt so far are replaced."""
        return self._replace_names(self._replace_shapes(_window(text)))[:FIELD_LIMIT] + _left_out(text)

    def path(self, path: str) -> str:
        """A field that is a path as a whole: `~/…/server.log`, `…/server.log`; relative paths stay, without secrets."""
        return self.text(self._paths.whole(path))

    def _field(self, name: str, text: str) -> str:
        if name in _OWN_WORDS:
            return self._replace_shapes(_window(text))[:FIELD_LIMIT]
        if name in _VERSION_FIELDS and known.VERSION.fullmatch(text):
            return text
        return self.path(text) if name in _PATH_FIELDS else self.text(text)

    def _replace_shapes(self, text: str) -> str:
        for kind, pattern in known.FOLLOWING:
            text = pattern.sub(lambda m, kind=kind: m[1] + self._secret(kind, m[2]), text)  # type: ignore[misc]
        for kind, pattern in known.TOKENS:
            text = pattern.sub(lambda m, kind=kind: self._secret(kind, m[0]), text)  # type: ignore[misc]
        text = self._pairs(text)
        text = known.URL.sub(self._url, text)
        text = known.EMAIL.sub(self._email, text)
        for pattern in known.HOSTS:
            text = _sub_group(pattern, "host", self._host, text)
        text = known.IPV6.sub(self._ipv6, text)
        text = known.IPV4.sub(self._ipv4, text)
        return self._paths.inside(text)

    def _secret(self, kind: str, value: str) -> str:
        """The placeholder of a secret, the same for the same value."""
        if known.PLACEHOLDER.fullmatch(value):
            return value
        key = (kind, value)
        if key not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._placeholders[key] = f"<{kind}-{self._counts[kind]}>"
        return self._placeholders[key]

    def _pairs(self, text: str) -> str:
        """`name=value` and `--name value`, judged by the name."""
        out, done = [], 0
        for match in known.PAIR.finditer(text):
            if match.start() < done:
                continue
            found = self._pair(match["name"], match["sep"], match["value"], text, match.end())
            if found is None:
                continue
            replacement, length = found
            out += [text[done : match.end()], replacement]
            done = match.end() + length
        return "".join([*out, text[done:]])

    def _pair(self, name: str, sep: str, value: str, text: str, at: int) -> tuple[str, int] | None:
        """The replacement of a value and how many characters it stands for, or None to leave it."""
        spaced = not sep.strip("\\ \t\r\n")
        if spaced and not re.match(r"--?[A-Za-z]", name):
            return None
        quoted = value[0] in "'\""
        body, quote = _unquoted(value) if quoted else (value.rstrip(",;)]}"), "")
        length = len(body) + 2 * len(quote) if quoted else len(body)
        length = min(length, len(value))
        if not body or known.PLACEHOLDER.fullmatch(body):
            return None
        kind = _kind(name.lstrip("-"), sep, body, quoted)
        if kind in ("prompt", "line") and not quoted:  # to the end of the line
            body = text[at:].split("\n", 1)[0].rstrip()
            length = len(body)
        if kind == "host":
            new = self._host_and_port(body)
        elif kind == "user":
            new = self._user(body)
        elif kind is None:
            return None
        else:
            new = self._secret("prompt" if kind == "prompt" else "secret", body)
            if kind != "prompt" and len(body) >= 6 and re.search(r"\d", body):
                self._learn(body, new)
        return f"{quote}{new}{quote}", length

    def _url(self, match: re.Match[str]) -> str:
        scheme, rest = match["scheme"], match["rest"]
        trimmed = rest.rstrip(".,;:)]}")
        tail = rest[len(trimmed) :]
        if scheme.lower() == "file":
            return f"{scheme}://{self._paths.whole(trimmed)}{tail}"
        authority, path, query = _url_parts(trimmed)
        userinfo, at, place = authority.rpartition("@")
        who = self._secret("secret", userinfo) + "@" if at else ""
        public = known.PUBLIC_HOSTS.fullmatch(place.split(":")[0]) is not None
        if scheme.lower() in ("s3", "gs", "gcs", "az", "abfs", "hdfs"):
            place, path = self._secret("bucket", place), self._paths.last(path)
        elif not public:
            place = self._host_and_port(place)
            path = path if path in ("", "/") or known.API_PATH.fullmatch(path) else "/…"
        return f"{scheme}://{who}{place}{path}{query and '?…'}{tail}"

    def _email(self, match: re.Match[str]) -> str:
        user, host = match["user"], match["host"]
        if known.MAIL_HOST.fullmatch(host):
            return self._secret("email", match[0])
        return f"{self._user(user)}@{self._host(host)}"

    def _host_and_port(self, value: str) -> str:
        bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.%\w]+)\](:\d+)?", value)
        if bracketed:
            return f"[{self._host(bracketed[1])}]{bracketed[2] or ''}"
        if value.count(":") == 1:
            name, _, port = value.partition(":")
            return f"{self._host(name)}:{port}" if port.isdigit() else self._host(value)
        return self._host(value)

    def _host(self, name: str) -> str:
        """The placeholder of a host by name or address; a short name and its long form are the same host."""
        bare = name.partition("%")[0]
        if known.LOCAL_HOSTS.fullmatch(bare) or known.PLACEHOLDER.fullmatch(bare) or known.PUBLIC_HOSTS.fullmatch(bare):
            return name
        if known.IPV4.fullmatch(bare) or _ipv6(bare):
            return self._secret("ip", bare.lower())
        short = name.lower().split(".")[0]
        placeholder = self._secret("host", short)
        self._learn(name, placeholder)
        self._learn(short, placeholder)
        return placeholder

    def _user(self, name: str) -> str:
        if known.LOCAL_HOSTS.fullmatch(name) or known.PLACEHOLDER.fullmatch(name) or name.lower() in known.COMMON:
            return name
        placeholder = self._secret("user", name.lower())
        self._learn(name, placeholder)
        return placeholder

    def _learn_user(self, name: str) -> None:
        self._user(name)

    def _learn(self, name: str, placeholder: str) -> None:
        name = name.lower()
        if 3 <= len(name) <= 200 and name not in known.COMMON and not name.isdigit() and name not in self._names:
            self._names[name] = placeholder
            self._any_name = None

    def _replace_names(self, text: str) -> str:
        if not self._names:
            return text
        if self._any_name is None:
            words = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
            self._any_name = re.compile(rf"(?i)(?<![a-z0-9<])(?:{words})(?![a-z0-9])")
        return self._any_name.sub(lambda match: self._names.get(match[0].lower(), match[0]), text)

    def _ipv4(self, match: re.Match[str]) -> str:
        octets = [int(part) for part in match[0].split(".")]
        before = match.string[max(0, match.start() - 16) : match.start()]
        version = known.VERSION_BEFORE.search(before) or (octets[0] < 10 and known.NAME_BEFORE.search(before))
        if max(octets) > 255 or version or known.LOCAL_HOSTS.fullmatch(match[0]):
            return match[0]
        return self._secret("ip", match[0])

    def _ipv6(self, match: re.Match[str]) -> str:
        found = match[0].rstrip(".")
        if found.endswith(":") and not found.endswith("::"):
            found = found[:-1]
        if known.LOCAL_HOSTS.fullmatch(found) or not _ipv6(found):
            return match[0]
        return self._secret("ip", found.lower()) + match[0][len(found) :]


def _kind(name: str, sep: str, value: str, quoted: bool) -> str | None:
    """What the value of a pair is: prompt, secret, line (a secret to the end of the line), host, user, or None."""
    figure = known.FIGURE.fullmatch(value) is not None
    if known.PROMPT_NAMES.fullmatch(name):
        free = ":" in sep and name.lower() in ("prompt", "text")
        return "prompt" if (quoted or free) and not figure else None
    if known.SECRET_NAMES.search(name):
        return _secret_kind(name, sep, value, quoted, figure)
    if known.HOST_NAMES.fullmatch(name) and not figure and re.fullmatch(r"[\w.:%\[\]-]+", value):
        sure = quoted or ":" not in sep or re.search(r"[\d.]", value)
        return "host" if sure else None
    if known.USER_NAMES.fullmatch(name) and not figure and re.fullmatch(r"[\w.@-]+", value):
        return "user" if quoted or ":" not in sep else None
    return None


def _secret_kind(name: str, sep: str, value: str, quoted: bool, figure: bool) -> str | None:
    bare_after_colon = ":" in sep and not quoted
    if known.STRONG_NAMES.search(name):
        if value.lower() in ("none", "null", "true", "false"):
            return None
        return "line" if bare_after_colon else "secret"
    prose = name.lower() in ("key", "token") and bare_after_colon and not re.search(r"\d", value)
    other = known.PLAIN_NAMES.search(name) or not known.LAST_WORD.fullmatch(name)
    return None if figure or prose or other else "secret"


def _unquoted(value: str) -> tuple[str, str]:
    quote = value[0]
    return (value[1:-1] if len(value) > 1 and value.endswith(quote) else value[1:]), quote


def _url_parts(text: str) -> tuple[str, str, str]:
    head, question, query = text.partition("?")
    head, hash_sign, fragment = head.partition("#")
    authority, slash, path = head.partition("/")
    return authority, slash + path, query if question else fragment if hash_sign else ""


def _ipv6(text: str) -> bool:
    """True for an address; lists of single digits such as `0:1:2:3:4:5:6:7` are none."""
    if text.count(":") < 2 or (":" in text and "::" not in text and max(map(len, text.split(":"))) < 3):
        return False
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _sub_group(pattern: re.Pattern[str], group: str, change: Callable[[str], str], text: str) -> str:
    def write(match: re.Match[str]) -> str:
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:start] + change(match[group]) + match[0][end:]

    return pattern.sub(write, text)


def _window(text: str) -> str:
    """The part of a long text that is looked at; it ends at a blank, so that no secret is cut in half."""
    if len(text) <= _WINDOW:
        return text
    part = text[:_WINDOW]
    return part[: max(part.rfind(" "), part.rfind("\n"), 0)] if re.search(r"\s", part) else ""


def _left_out(text: str) -> str:
    return f" … (+{len(text) - FIELD_LIMIT:,} characters)" if len(text) > FIELD_LIMIT else ""
