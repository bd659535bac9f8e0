"""A made-up /proc in a folder, for what no test can start: zombies, other users' processes, thousands of them."""

from pathlib import Path


def add(
    proc: Path,
    pid: int,
    parent: int = 1,
    argv: tuple[bytes, ...] = (b"python", b"-m", b"sglang.launch_server"),
    environ: bytes | None = b"NCCL_PROTO=LL\0",
    state: str = "S",
    name: bytes = b"python",
    started: int = 100,
) -> None:
    """One process; `environ` None: it cannot be read (a folder stands in its place)."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    rest = " ".join([state, str(parent), *["0"] * 17, str(started), *["0"] * 30])
    (folder / "stat").write_bytes(b"%d (%s) %s\n" % (pid, name, rest.encode()))
    (folder / "cmdline").write_bytes(b"\0".join(argv) + (b"\0" if argv else b""))
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\n")
    if environ is not None:
        (folder / "environ").write_bytes(environ)
