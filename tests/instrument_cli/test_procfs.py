"""/proc as it may be: vanished, recycled, zombie, denied, hostile and crowded. Nothing raises, nothing is invented."""

import sys
from pathlib import Path

import pytest

from tests.instrument_cli.fake_proc import add
from traceana.environment import audit, procfs, servers
from traceana.environment.audit import Logs
from traceana.environment.start_lines import StartLine

SCHEDULER = (b"sglang::scheduler_TP0" + b"\0" * 60,)


def report(proc: Path, pid: int):
    return audit.live(servers.of_pid(pid, procfs.processes(proc)), Logs(), proc)


def test_a_process_that_ended_in_between_has_no_environment(tmp_path: Path) -> None:
    add(tmp_path, 10)
    found = procfs.process(10, tmp_path)
    assert found is not None
    (tmp_path / "10" / "environ").unlink()
    assert procfs.environ(found, tmp_path).state == "gone"


def test_a_pid_that_was_given_to_another_process_is_not_taken_for_the_first(tmp_path: Path) -> None:
    add(tmp_path, 10, started=100)
    found = procfs.process(10, tmp_path)
    assert found is not None
    (tmp_path / "10" / "stat").write_text(f"10 (other) S 1 {'0 ' * 17}999 {'0 ' * 30}")
    assert procfs.environ(found, tmp_path).state == "gone"


def test_a_zombie_is_gone_and_shown_by_its_name(tmp_path: Path) -> None:
    add(tmp_path, 10)
    add(tmp_path, 11, parent=10, argv=(), state="Z", name=b"sglang::schedul")
    found = report(tmp_path, 10)
    (zombie,) = [p for p in found.processes if p.pid == 11]
    assert (zombie.environment, zombie.title) == ("gone", "[sglang::schedul]")


@pytest.mark.skipif(
    not hasattr(__import__("os"), "geteuid") or __import__("os").geteuid() == 0, reason="root reads all"
)
def test_another_users_environment_is_denied(tmp_path: Path) -> None:
    add(tmp_path, 10)
    (tmp_path / "10" / "environ").chmod(0)
    assert report(tmp_path, 10).processes[0].environment == "denied"


def test_denied_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, 10)
    opened = Path.open

    def refuse(self: Path, *args, **kwargs):
        if self.name == "environ":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    (process,) = report(tmp_path, 10).processes
    assert process.environment == "denied"
    assert process.how and "as root" in process.how


@pytest.mark.parametrize(
    ("block", "state"),
    [
        (b"\0" * 500, "blanked"),
        (b"tail of a long title\0\0\0", "blanked"),
        (b"x y=title with an equals sign\0\0", "blanked"),
        (b"", "empty"),
        (b"\0" * 300 + b"LD_PRELOAD=x\0A=1\0", "blanked"),
        (b"sglang::scheduler_TP0\0\0\0A=1\0", "blanked"),
        (b"A=1\0", "read"),
        (b"A=1\0" + b"\0" * 7, "read"),
        (b"BASH_FUNC_module%%=() { x; }\0A=1\0", "read"),
        (b"=odd\0A=1\0B\0\xff\xfe=\xff\0", "read"),
    ],
)
def test_what_a_block_is(tmp_path: Path, block: bytes, state: str) -> None:
    add(tmp_path, 10, environ=block)
    found = procfs.process(10, tmp_path)
    assert found is not None
    assert procfs.environ(found, tmp_path).state == state


def test_what_a_title_left_of_an_environment_counts_and_what_it_took_is_not_missing(tmp_path: Path) -> None:
    add(
        tmp_path,
        10,
        argv=(b"python", b"-m", b"vllm.entrypoints.x"),
        environ=b"NCCL_PROTO=LL\0NCCL_ALGO=Ring\0VLLM_X=1\0",
    )
    add(tmp_path, 11, parent=10, argv=(b"VLLM::Worker_TP0",), environ=b"\0" * 90 + b"NCCL_ALGO=Ring\0")
    found = report(tmp_path, 10)
    states = {row.name: (row.asked.state, row.reached.state) for row in found.variables}
    assert states == {
        "NCCL_ALGO": ("yes", "yes"),
        "NCCL_PROTO": ("yes", "cannot tell"),
        "VLLM_X": ("yes", "cannot tell"),
    }
    assert found.problems == ()


def test_the_first_of_two_equal_names_wins_as_for_getenv() -> None:
    assert procfs.parse(b"A=1\0A=2\0B=x=y\0") == {"A": "1", "B": "x=y"}


def test_a_huge_environment_is_read_to_a_bound(tmp_path: Path) -> None:
    add(tmp_path, 10, environ=b"".join(b"NCCL_X%d=1\0" % n for n in range(600_000)))
    assert len(report(tmp_path, 10).variables) == 300


@pytest.mark.parametrize("name", [b"a) S 5 (b", b"(((", b")", b"\x1b[31m\n", b"\xff\xfe"])
def test_names_with_brackets_and_control_characters_are_read(tmp_path: Path, name: bytes) -> None:
    add(tmp_path, 10, parent=7, name=name)
    found = procfs.process(10, tmp_path)
    assert found is not None
    assert (found.parent, found.started) == (7, 100)


@pytest.mark.parametrize("stat", ["", "10", "10 (x) S", "10 (x) S a b c", "\0" * 50, "10 (x) " + "9" * 100_000])
def test_a_stat_line_of_another_form_is_no_process(tmp_path: Path, stat: str) -> None:
    add(tmp_path, 10)
    (tmp_path / "10" / "stat").write_text(stat)
    assert procfs.process(10, tmp_path) is None


def test_titles_are_harmless_in_the_report(tmp_path: Path) -> None:
    from traceana.environment.model import EnvReport
    from traceana.environment.text import env_sections
    from traceana.report.terminal import render_sections

    add(
        tmp_path,
        10,
        argv=(b"python", b"-m", b"sglang.launch_server", b"\x1b[2J\x07\xe2\x80\xae", b"--api-key", b"sk-secret1"),
    )
    add(tmp_path, 11, parent=10, argv=(b"sglang::scheduler_TP0\x1b]0;x\x07",))
    text = render_sections(env_sections(EnvReport("x", (report(tmp_path, 10),))), width=80)
    assert not [c for c in text if ord(c) < 32 and c != "\n"]
    assert "\u202e" not in text and "sk-secret1" not in text


def test_parents_that_form_a_loop_end(tmp_path: Path) -> None:
    add(tmp_path, 10, parent=11)
    add(tmp_path, 11, parent=10)
    everyone = procfs.processes(tmp_path)
    assert [p.pid for p in procfs.ancestors(10, everyone)] == [11]
    assert len(procfs.descendants(10, everyone)) == 2
    assert report(tmp_path, 10).pid in (10, 11)


def test_thousands_of_processes_are_no_trouble(tmp_path: Path) -> None:
    for pid in range(100, 2100):
        add(
            tmp_path,
            pid,
            parent=100 if pid > 100 else 1,
            argv=(b"sleep",) if pid > 100 else (b"vllm", b"serve"),
            environ=b"",
        )
    found = report(tmp_path, 100)
    assert len(found.processes) == 2000


def test_workers_are_told_from_helpers_by_title_and_by_how_python_spawns(tmp_path: Path) -> None:
    spawn = (b"python", b"-c", b"from multiprocessing.spawn import spawn_main; spawn_main()", b"--multiprocessing-fork")
    add(tmp_path, 10, argv=(b"bash", b"-c", b"vllm serve model"))
    add(tmp_path, 9, argv=(b"grep", b"vllm serve"))
    add(tmp_path, 11, parent=10, argv=(b"/usr/bin/python", b"/usr/bin/vllm serve", b"model"))
    add(tmp_path, 12, parent=11, argv=(b"python", b"-c", b"from multiprocessing.resource_tracker import main;main(3)"))
    add(tmp_path, 13, parent=11, argv=(b"VLLM::EngineCore",))
    add(tmp_path, 14, parent=13, argv=(b"VLLM::Worker_TP0",))
    add(tmp_path, 15, parent=13, argv=(b"VLLM::Worker_TP1",))
    found = servers.of_pid(15, procfs.processes(tmp_path))
    assert found.top.pid == 11
    assert [(m.role, m.rank, m.worker) for m in found.members] == [
        ("launcher", "", False),
        ("helper", "", False),
        ("engine core", "", False),
        ("worker", "TP0", True),
        ("worker", "TP1", True),
    ]
    add(tmp_path, 20, argv=(b"python", b"-m", b"vllm.entrypoints.openai.api_server"))
    add(tmp_path, 21, parent=20, argv=spawn)
    other = servers.of_pid(21, procfs.processes(tmp_path))
    assert [(m.role, m.worker) for m in other.members] == [("launcher", False), ("spawned", True)]
    assert [s.top.pid for s in servers.find(procfs.processes(tmp_path), itself=1)] == [11, 20]


def test_a_container_log_with_inner_pids_fits_the_processes_seen_from_outside(tmp_path: Path) -> None:
    add(tmp_path, 4000, argv=SCHEDULER, environ=b"\0" * 50)
    (tmp_path / "4000" / "status").write_text("Name:\tx\nNSpid:\t4000\t77\n")
    assert procfs.inner_pids(4000, tmp_path) == (4000, 77)
    assert procfs.inner_pids(5, tmp_path) == (5,)
    start = StartLine("server.log", 3, 77, "SpawnProcess-1", "rank 0", "sglang", "0.5.9", {"NCCL_PROTO": "LL"})
    found = audit.live(servers.of_pid(4000, procfs.processes(tmp_path)), Logs((start,)), tmp_path)
    (proto,) = [row for row in found.variables if row.name == "NCCL_PROTO"]
    assert (proto.reached.state, proto.reached.why) == ("yes", "start line, server.log:3")
    assert found.notes == ()


@pytest.mark.skipif(sys.platform.startswith("linux"), reason="there is a /proc")
def test_without_proc_the_command_says_so() -> None:
    assert not procfs.available()


def test_where_there_is_no_proc_the_command_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.instrument_cli.asking import command

    monkeypatch.setattr(procfs, "available", lambda: False)
    code, _, error = command("env")
    assert code == 2
    assert "/proc" in error and "--log" in error
