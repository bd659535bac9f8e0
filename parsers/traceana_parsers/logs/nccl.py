"""NCCL's own lines, 2.14 to 2.30. Source: the format strings of NVIDIA/nccl, 23 tags from v2.14.3 to v2.30.7.

The head is `host:pid:tid [device] NCCL INFO `, anywhere on the line; the event's `attrs` hold host and device.
"""

from __future__ import annotations

from traceana_parsers.logs.grammar import Example, Grammar, PatternGrammar

_WHO = r"(?:(?P<host>[0-9A-Za-z_.-]+):(?P<os_pid>[0-9]+):[0-9]+ )?(?:\[(?P<dev>[0-9]+)\] )?NCCL INFO +"
_L = "node07:4120:4120 [3] NCCL INFO "


def _n(
    name: str, anchor: str, pattern: str, example: str, gives: dict[str, object], kind: str = "", **more: object
) -> PatternGrammar:
    return PatternGrammar(
        name=name,
        engine="nccl",
        anchor=anchor,
        pattern=_WHO + pattern,
        kind=kind or f"nccl_{name}",
        examples=(Example(example, gives),),
        **more,  # type: ignore[arg-type]
    )


ENV = PatternGrammar(
    name="nccl_env",
    engine="nccl",
    anchor=" set by environment to ",
    pattern=r"(?:(?P<host>[0-9A-Za-z_.-]+):(?P<os_pid>[0-9]+):[0-9]+ )?(?:\[(?P<dev>[0-9]+)\] )?(?:NCCL INFO )?"
    r"(?P<name>(?:NCCL|RCCL)_[A-Z0-9_]+) set by environment to (?P<value>.*?)\.?(?: \[repeated [0-9]+x across cluster\])?\s*$",
    kind="nccl_env",
    table="settings",
    examples=(
        Example(f"{_L}NCCL_PROTO set by environment to LL", {"NCCL_PROTO": "LL"}),
        Example(f"{_L}NCCL_BUFFSIZE set by environment to 16777216.", {"NCCL_BUFFSIZE": "16777216"}),
    ),
)

REQUESTED = PatternGrammar(
    name="launch_env",
    engine="any",
    anchor="NCCL_",
    # a launch command, a unit or an env file: never behind a bracket, where log lines have their time or device
    pattern=r"^(?:[^\[]{0,4000}?[\s\"'=(;])?(?P<assignments>NCCL_[A-Z0-9_]+=.*)",
    kind="launch_env",
    table="settings",
    optional=True,
    examples=(
        Example("+ env NCCL_PROTO=LL NCCL_P2P_LEVEL=SYS python3 -m sglang.launch_server", {"NCCL_P2P_LEVEL": "SYS"}),
        Example("docker run --gpus all -e NCCL_ALGO='Ring' -e HF_HOME=/models image", {"NCCL_ALGO": "Ring"}),
        Example("export NCCL_MAX_NCHANNELS=16", {"NCCL_MAX_NCHANNELS": "16"}),
    ),
)

EVENTS: tuple[PatternGrammar, ...] = (
    _n(
        "init",
        " - Init COMPLETE",
        r"(?:\[Rank [0-9]+\] )?(?:(?P<function>ncclComm[A-Za-z]+) )?comm (?P<comm>0x[0-9a-f]+) rank (?P<value>[0-9]+) "
        r"nranks (?P<nranks>[0-9]+) cudaDev (?P<cuda_dev>[0-9]+)(?:.*?busId (?P<bus>[0-9a-f]+))?(?:.*?commId (?P<subject>0x[0-9a-f]+))?.*?- Init "
        r"COMPLETE",
        f"{_L}ncclCommInitRank comm 0x4309e490 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 18000 commId 0x569a2c3ec1ecb538 - "
        "Init COMPLETE",
        {"value": 3.0, "nranks": "8", "subject": "0x569a2c3ec1ecb538", "os_pid": "4120"},
        kind="nccl_init_complete",
    ),
    _n(
        "init_start",
        "- Init START",
        r"(?:\[Rank [0-9]+\] )?(?:(?P<function>ncclComm[A-Za-z]+) )?comm (?P<comm>0x[0-9a-f]+) rank (?P<value>[0-9]+) "
        r"nranks (?P<nranks>[0-9]+) cudaDev (?P<cuda_dev>[0-9]+)(?:.*?busId (?P<bus>[0-9a-f]+))?(?:.*?commId (?P<subject>0x[0-9a-f]+))?.*?- Init "
        r"START",
        f"{_L}[Rank 3] ncclCommSplit comm 0x43 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 18000 parent 0x42 childCount 1 color "
        "0 key 3- Init START",
        {"value": 3.0, "nranks": "8"},
        kind="nccl_init_start",
    ),
    _n(
        "layout",
        " localRanks ",
        r"comm (?P<comm>0x[0-9a-f]+) rank (?P<value>[0-9]+) nRanks (?P<nranks>[0-9]+) nNodes (?P<nodes>[0-9]+)",
        f"{_L}comm 0x4309e490 rank 3 nRanks 8 nNodes 1 localRanks 8 localRank 3 MNNVL 0",
        {"value": 3.0, "nodes": "1"},
    ),
    _n(
        "link",
        "] via ",
        r"Channel (?P<channel>[0-9]+)(?:/[0-9]+)? : [0-9]+\[[0-9a-f]+\] -> [0-9]+\[[0-9a-f]+\](?: \[(?:send|receive)\])? via "
        r"(?P<subject>P2P|SHM|NET|COLLNET)(?:/(?P<how>[A-Za-z0-9_-]+))?",
        f"{_L}Channel 01/0 : 3[3] -> 4[4] via P2P/CUMEM",
        {"subject": "P2P", "channel": "01", "how": "CUMEM"},
        optional=True,
    ),
    _n(
        "ring",
        " NCCL INFO Channel ",
        r"Channel (?P<channel>[0-9]+)/(?P<value>[0-9]+) :(?P<order>(?: +[0-9]+)+)\s*$",
        f"{_L}Channel 00/02 :    0   1   2   3",
        {"value": 2.0},
        optional=True,
        fold=True,
    ),
    _n(
        "p2p_off",
        "P2P is disabled between connected GPUs",
        r"P2P is disabled between connected GPUs (?P<subject>[0-9]+ and [0-9]+)",
        f"{_L}P2P is disabled between connected GPUs 3 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
        {"subject": "3 and 0"},
    ),
    PatternGrammar(
        name="pattern",
        engine="nccl",
        anchor="Pattern ",
        # quoted lines often come without the head, and with the middle cut out
        pattern=r"(?:(?P<host>[0-9A-Za-z_.-]+):(?P<os_pid>[0-9]+):[0-9]+ )?(?:\[(?P<dev>[0-9]+)\] )?(?:NCCL INFO +)?"
        r"Pattern (?P<pattern>[0-9]+)\b(?:, crossNic [0-9]+, nChannels (?P<channels>[0-9]+),)?[ .…,]*"
        r"bw (?P<value>[0-9.]+)/(?P<inter>[0-9.]+), type (?P<subject>[A-Z0-9]+)/[A-Z0-9]+",
        kind="nccl_pattern",
        optional=True,
        examples=(
            Example(
                f"{_L}Pattern 4, crossNic 0, nChannels 2, bw 0.100000/0.100000, type SYS/SYS, sameChannels 1",
                {"value": 0.1, "channels": "2", "subject": "SYS"},
            ),
            Example("Pattern 1 ... bw 0.2/0.2, type SYS/SYS", {"value": 0.2, "subject": "SYS"}),
        ),
    ),
    _n(
        "coll_channels",
        " coll channels, ",
        r"(?P<value>[0-9]+) coll channels",
        f"{_L}2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
        {"value": 2.0},
        optional=True,
    ),
    _n(
        "tuning_old",
        "Bytes -> Algo ",
        r"(?:(?P<coll>[A-Za-z]+): )?(?P<bytes>[0-9]+) Bytes -> Algo (?P<algo>[A-Za-z0-9_]+) proto (?P<proto>[A-Za-z0-9]+)"
        r"(?: time (?P<value>[0-9.]+))?",
        f"{_L}AllReduce: 28672 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}",
        {"bytes": "28672", "algo": "RING", "proto": "LL"},
        kind="nccl_tuning",
        fold=True,
    ),
    _n(
        "driver",
        "cudaDriverVersion ",
        r"cudaDriverVersion (?P<value>[0-9]+)",
        f"{_L}cudaDriverVersion 13000",
        {"value": 13000.0},
        optional=True,
    ),
    PatternGrammar(
        name="nccl_version",
        engine="nccl",
        anchor="NCCL version ",
        pattern=r"NCCL version (?P<subject>[0-9]+\.[0-9]+\.[0-9]+)",
        kind="nccl_version",
        optional=True,
        examples=(Example("NCCL version 2.27.7+cuda13.0", {"subject": "2.27.7"}),),
    ),
    PatternGrammar(
        name="nccl_warn",
        engine="nccl",
        anchor="NCCL WARN ",
        pattern=r"(?:(?P<host>[0-9A-Za-z_.-]+):(?P<os_pid>[0-9]+):[0-9]+ (?:\[-?[0-9]+\] )?(?:\S+:[0-9]+ )?(?:\([A-Za-z0-9_]+\) )?)?"
        r"NCCL WARN (?P<subject>.*)",
        kind="nccl_warn",
        fold=True,
        examples=(
            Example(
                "[2026-02-03 09:10:00] node07:4120:4120 [3] misc/param.cc:40 (ncclLoadParam) NCCL WARN Cuda failure 'out of "
                "memory'",
                {"subject": "Cuda failure 'out of memory'", "os_pid": "4120"},
            ),
        ),
    ),
    PatternGrammar(
        name="nccl_info",
        engine="nccl",
        anchor="NCCL INFO ",
        pattern=r"NCCL INFO",
        kind="nccl_other",
        table="",  # known to be NCCL's, carries nothing we use
        examples=(Example(f"{_L}Using network Socket", {}),),
    ),
)

GRAMMARS: tuple[Grammar, ...] = (ENV, REQUESTED, *EVENTS)
