"""What NCCL says when it fails. A table like `_known_texts.py`."""

from __future__ import annotations

from traceana.rules._known_text import KnownText
from traceana.rules.interface import Confidence

NCCL_TEXTS: tuple[KnownText, ...] = (
    KnownText(
        ("closed by remote peer",),
        "another process of the NCCL group went away",
        "NCCL lost its connection to a peer: that process ended first, and its own log tells why.",
        ("read the log of the host that the line names, shortly before this time",),
        ("a network that dropped the connection",),
        Confidence.MEDIUM,
        "nccl #1232",
    ),
    KnownText(
        ("ibv_modify_qp failed",),
        "NCCL could not connect two InfiniBand or RoCE ports",
        "It paired ports that do not reach each other, or one that the container or fabric does not offer. errno 110 "
        "is no answer, 19 no such device or GID, 101 and 113 no route.",
        (
            "NCCL_IB_HCA with the ports of that fabric, NCCL_IB_GID_INDEX for RoCE",
            "NCCL_CROSS_NIC=0 where only ports of equal number are connected",
            "ib_write_bw between the two hosts, run inside the containers",
        ),
        ("the process on the other side ended first",),
        Confidence.MEDIUM,
        "nccl #925 #1657 #2013, nccl-tests #185 #227",
    ),
    KnownText(
        ("socketstartconnect", "socketpollconnect", "connection refused"),
        "NCCL could not open a connection to another process",
        "The address belongs to an interface that the nodes do not share, a firewall is between them, or nothing "
        "listens there any more.",
        ("NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME with the interface that all nodes share",),
        ("the process on the other side ended first",),
        Confidence.MEDIUM,
        "sglang #5594",
    ),
    KnownText(
        ("cuda ipc handle",),
        "a GPU's memory could not be opened by another process",
        "NCCL's peer-to-peer path shares memory between processes: without peer access, or across containers with "
        "their own IPC or PID namespace, that fails.",
        (
            "--ipc=host for all containers of the group",
            "NCCL_P2P_DISABLE=1 for one start tells if it is this path",
        ),
        (),
        Confidence.MEDIUM,
        "ray_lightning #24",
    ),
    KnownText(
        ("unhandled system error", "unhandled cuda error", "ncclremoteerror", "remote process exited"),
        "NCCL failed in a call to the system or to CUDA",
        "The message does not say in which: the NCCL WARN line before it does, when NCCL_DEBUG is WARN or INFO.",
        ("NCCL_DEBUG=WARN for one start, and read the first NCCL WARN line of all ranks",),
        ("another rank failed first",),
        Confidence.LOW,
        "nccl #1657",
        vague=True,
    ),
)
