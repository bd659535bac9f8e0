r"""What a secret looks like: the patterns of the redactor, as data. All run in linear time on a bounded field.

User and host names have no shape of their own: they are found where a telling word stands beside them. Never found: a
secret that looks like an ordinary word and stands alone, and prompts in a form no engine prints.
"""

from __future__ import annotations

import re

#: (kind of placeholder, pattern): the whole match is the secret
TOKENS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # to the end of the field when the end line is missing
    (
        "private-key",
        re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?s:.*?)-----END [A-Z0-9 ]{0,40}-----|(?s:.*))"),
    ),
    # Hugging Face; engines have arguments called hf_overrides, hf_output_len ...
    ("key", re.compile(r"(?<![A-Za-z0-9])hf_(?!(?:overrides|config|token|[a-z]{1,16}_[a-z_]{1,24})\b)[A-Za-z0-9]{8,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|nvapi-)[A-Za-z0-9_-]{8,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])(?:gsk_|r8_|npm_|dop_v1_|pplx-|pypi-)[A-Za-z0-9]{16,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{8,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{20,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{8,}")),
    ("key", re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}")),
    ("mac", re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:-])")),
)

#: the secret is group 2 and follows the words of group 1
FOLLOWING: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("prompt", re.compile(r"(?is)(\bgenerated[ _]texts?['\"]?\s?[:=]\s?)(.+)")),
    ("prompt", re.compile(r"(?is)(\bmessages['\"]?\s?[:=]\s?)(\[.*)")),
    ("prompt", re.compile(r"(?i)(\b(?:prompt_token_ids|input_ids|output_ids|token_ids)['\"]?\s?[:=]\s?)(\[[^\]]*\]?)")),
    ("key", re.compile(r"(?i)(\b(?:Proxy-)?Authorization['\"]?\s?[:=]\s?)([^\r\n]+)")),
    ("key", re.compile(r"(?i)(\b(?:Bearer|Basic)\s{1,3})([A-Za-z0-9._~+/=-]{6,})")),
)

_QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'?|"[^"\\]*(?:\\.[^"\\]*)*"?"""

#: `name = value`, `"name": "value"`, `--name value`; the value is only looked at, so that a pair inside it is found too
PAIR = re.compile(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z0-9_.-]{1,200})(?P<sep>\\?['\"]?\s{0,3}[=:]\s{0,3}|(?<=[A-Za-z0-9])\s{1,3})"
    r"(?=(?P<value>" + _QUOTED + r"|[^\s'\"]\S*))",
    re.DOTALL,
)

#: names of fields whose text is a prompt or an answer
PROMPT_NAMES = re.compile(
    r"(?i)(?:.*[_.-])?(?:prompts?|text|content|query|question|answer|completion|output_text|input_text|instruction)"
)
#: a name that holds one of these holds a secret
SECRET_NAMES = re.compile(r"(?i)key|token|secret|passw|passphrase|credential|(?:^|[_-])(?:pwd|auth)(?:$|[_-])")
#: and one of these always does, even when its value is a plain number
STRONG_NAMES = re.compile(
    r"(?i)secret|passw|passphrase|credential|api_?-?key|private_?-?key|access_?-?key|auth|(?:hf|hub|hugging\w*)_token|wandb"
)
#: what engines call tokens and keys of another sort
PLAIN_NAMES = re.compile(
    r"(?i)tokens|tokeniz|token_?ids?\b|token[_-]map|token[_-]usage|(?:eos|bos|pad|unk|stop|new|cached|per|num)[_-]token"
    r"|token[_-]?lo?g|keyword|key[_-](?:cache|value|len|dtype|head)|keys?_dtype|monkey|keyboard|keepalive"
)
#: `key` and `token` make a secret of an argument only as its last word (`hf_token`, not `token_map`); in the name of an
#: environment variable anywhere
LAST_WORD = re.compile(r"(?:.*[a-z0-9_.-])?(?i:(?:key|token)s?(?:[_-]?(?:id|file|path|value|\d+))?)|[A-Z0-9_.]+")
HOST_NAMES = re.compile(
    r"(?i)(?:.*[_.-])?(?:host|hostname|host_?name|nodename|node_?name|addr|address|node_?ip|connect_ip|server_?name|head_node|peer)"
)
USER_NAMES = re.compile(r"(?i)(?:.*[_.-])?(?:user|username|user_name|logname|login|owner)")

#: a value that is a figure or a switch is no secret
FIGURE = re.compile(
    r"(?i)[+-]?\d[\d.,]*(?:e[+-]?\d+)?(?:[mun]?s|x|%|[kmg]i?b?)?[)\]},;:.]{0,3}|none|null|true|false|auto|\*+|['\"]{0,2}"
)

URL = re.compile(r"(?<![A-Za-z0-9])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,15})://(?P<rest>[^\s'\"<>`|\\]+)")
#: paths of servers' own interfaces say nothing private
API_PATH = re.compile(
    r"/(?:v\d+(?:/[a-z_]{1,24}){0,3}|generate\w*|health\w*|metrics|flush_cache|(?:get_)?(?:server|model)_info|ping|"
    r"start_profile|stop_profile|tokenize|detokenize|invocations|encode|classify|rerank|pause|resume|docs|openapi\.json)/?"
)
EMAIL = re.compile(r"(?P<user>[A-Za-z0-9._%+-]{1,64})@(?P<host>[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*)")
MAIL_HOST = re.compile(r".+\.[A-Za-z]{2,24}")

#: places where the word in the group is a host name
HOSTS: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"(?<![\w.:-])(?P<host>(?!\d{4}-\d\d-)(?=[\d._-]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,253})"
        r"(?=:\d{1,10}:\d{1,10} \[)"
    ),  # NCCL
    re.compile(r"\[(?P<host>[A-Za-z][A-Za-z0-9.-]{1,253})(?=\]:\d{2,5})"),  # c10d
    re.compile(r"(?i)(?<![\w.-])(?P<host>[a-z][a-z0-9]{0,20}-(?:\d{1,3}-){3}\d{1,3}(?:\.[a-z0-9.-]+)?)(?![\w-])"),
    re.compile(
        r"(?i)(?<![\w.@/-])(?P<host>(?:[a-z0-9][a-z0-9-]{0,62}\.){1,6}"
        r"(?:internal|local|lan|corp|intranet|svc|com|net|org|edu|gov|cloud))(?![\w-]|\.\w)"
    ),
    re.compile(
        r"(?i)\b(?:host|hostname|node|server|machine|from|to|on)[ =]{1,2}"
        r"(?P<host>(?=[a-z0-9.-]*\d)[a-z][a-z0-9]*(?:[.-][a-z0-9]+)+)(?=[:\s,;)\]]|$)"
    ),
)

#: hosts that name nobody
LOCAL_HOSTS = re.compile(
    r"(?i)localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|255\.255\.255\.255|::1?|none|null|true|false|auto|"
)
PUBLIC_HOSTS = re.compile(
    r"(?i)(?:[a-z0-9-]{1,60}\.){0,4}(?:github\.com|githubusercontent\.com|huggingface\.co|vllm\.ai|sglang\.(?:ai|io)|lmsys\.org|"
    r"nvidia\.com|pytorch\.org|python\.org|pypi\.org|arxiv\.org|readthedocs\.io|kernel\.org|docker\.(?:com|io)|nvcr\.io)"
)

IPV4 = re.compile(r"(?<![A-Za-z0-9_.+])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9_+]|\.\d)")
IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:.]{2,45}(?![\w:])")
#: what stands before a version number of four parts
VERSION_BEFORE = re.compile(
    r"(?i)(?:version|==|[<>~!]=|\bver\.?|tensorrt|\btrt|cudnn|cublas|driver|release)[\s:='\"(-]{0,3}$"
)
#: the same, but it could as well introduce an address: only for small first numbers
NAME_BEFORE = re.compile(r"(?i)(?:nccl|cuda|torch|rccl)[\s:='\"(-]{0,3}$")
VERSION = re.compile(r"v?\d{1,4}(?:\.\d{1,6}){1,3}(?:[A-Za-z0-9.+_-]{0,40})?")

QUOTED_PATH = re.compile(r"(?P<quote>['\"])(?P<path>(?:/(?!/)|~/|[A-Za-z]:[\\/])[^'\"\r\n]{1,1000})(?P=quote)")
PATH = re.compile(
    r"(?<![\w.~/…])(?P<path>(?:~(?:[A-Za-z][\w.-]{2,30}(?=/..))?)?/(?!/)(?:[^\s'\"`,;:()\[\]{}<>|\\]|\\.)+)"
)
WINDOWS_PATH = re.compile(r"(?<![A-Za-z])(?P<path>[A-Za-z]:\\{1,2}[^\s'\"`,;:()<>|]+)")
#: directories that are the same on every machine
SHARED_ROOTS = ("etc", "usr", "opt", "proc", "sys", "dev", "bin", "sbin", "lib", "lib64")
HOME = re.compile(r"/(?:home|Users|var/home)/(?P<user>[^/\\\s]+)|/root(?=/|$)|~(?P<tilde>[A-Za-z][\w.-]*)?(?=/|$)")
ANY_HOME = re.compile(r"(?i)[/\\](?:home|users)[/\\]+(?P<user>[^/\\\s'\"`,;:()\[\]{}<>|]+)")

PLACEHOLDER = re.compile(r"<[a-z-]+-\d+>")

_COMMON = """
root user users admin ubuntu centos debian ec2-user vllm sglang nccl cuda server client host node localhost model
models data default none null true false test tests dev prod docker home work workspace worker engine scheduler draft
verify decode prefill cycle token tokens info error warning critical high medium low measured derived gpu cpu rank
ranks batch run main batches running python torch jovyan runner nobody app service public shared tmp logs log cache
pays loses even unknown acceptance both baseline step steps median line lines read unread the and for with from key
mac bucket email secret prompt private-key
"""
#: names too common to be taken for a person's or a machine's when they stand alone
COMMON = frozenset(_COMMON.split())
