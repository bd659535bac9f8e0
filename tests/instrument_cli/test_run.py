"""`traceana run -- CMD`: every process of the server gets the timers, and the command stays the user's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from traceana.cli.run import notes, profile_variables, server_command
from traceana.environment.package import bootstrap_folder
from traceana.errors import TraceanaError

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "parsers", "instrument"))}
SHOW = "import json, os, sys; print(json.dumps([dict(os.environ), sys.path, sys.executable]))"
OLD_PYTHON = next((p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists()), None)


def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "traceana", "run", *map(str, arguments)]
    return subprocess.run(command, env=env or ENV, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_runs_with_the_timers_switched_on_and_says_so_in_a_line() -> None:
    done = run("--", sys.executable, "-c", SHOW)
    assert done.returncode == 0, done.stderr
    environ, path, _ = json.loads(done.stdout)
    assert environ["EAGLE3_PROFILE"] == "1"
    assert environ["SPT_NOENV"] == "1"
    assert environ["PYTHONPATH"].split(os.pathsep)[0] == str(bootstrap_folder())
    assert str(bootstrap_folder()) in path
    (line,) = done.stderr.splitlines()
    assert line.startswith("traceana run: timers on for ") and "EAGLE3_PROFILE=1" in line


def test_the_users_pythonpath_and_sitecustomize_are_kept(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['USERS_OWN'] = 'ran'\n")
    (tmp_path / "users_module.py").write_text("")
    code = "import os, users_module; print(os.environ['USERS_OWN'], os.environ['PYTHONPATH'])"
    done = run(
        "--", sys.executable, "-c", code, env={**ENV, "PYTHONPATH": f"{ENV['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    )
    assert done.stdout.startswith("ran "), done.stderr
    assert done.stdout.strip().endswith(str(tmp_path))


def test_without_a_pythonpath_the_current_folder_is_not_added() -> None:
    variables = profile_variables({}, comm=False, every=None, cycles=None, nvtx=None)
    assert variables["PYTHONPATH"] == str(bootstrap_folder())
    again = profile_variables(variables, comm=False, every=None, cycles=None, nvtx=None)
    assert again["PYTHONPATH"] == variables["PYTHONPATH"]


def test_spawned_processes_have_the_timers_too(tmp_path: Path) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(
        "import multiprocessing, os\n"
        "def child():\n"
        "    print('child', os.environ['EAGLE3_PROFILE'], os.environ['PYTHONPATH'].split(os.pathsep)[0], flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=child)\n"
        "    process.start(); process.join()\n"
    )
    done = run("--", sys.executable, script)
    assert done.stdout.strip() == f"child 1 {bootstrap_folder()}", done.stderr


def test_the_exit_code_is_the_servers() -> None:
    assert run("--", sys.executable, "-c", "raise SystemExit(37)").returncode == 37


def test_a_signal_reaches_the_server_itself() -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *a: sys.exit(9)); print('up', flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "traceana", "run", "--", sys.executable, "-c", code]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 9


def test_options_behind_the_command_are_the_commands_even_without_the_dashes() -> None:
    done = run(sys.executable, "-c", "import sys; print(sys.argv[1:])", "--comm", "--every", "3")
    assert done.stdout.strip() == "['--comm', '--every', '3']", done.stderr
    assert "EAGLE3_PROFILE=1" in done.stderr


def test_options_become_variables(tmp_path: Path) -> None:
    done = run(
        "--comm", "--every", "50", "--cycles", tmp_path / "cycles", "--no-nvtx", "--", sys.executable, "-c", SHOW
    )
    environ = json.loads(done.stdout)[0]
    assert environ["EAGLE3_PROFILE"] == "comm"
    assert environ["EAGLE3_PROFILE_CYCLES"] == "50"
    assert environ["EAGLE3_PROFILE_NVTX"] == "0"
    assert environ["EAGLE3_PROFILE_DIR"] == str(tmp_path / "cycles")
    assert (tmp_path / "cycles").is_dir()
    assert "timers and collectives" in done.stderr


def test_a_users_own_spt_noenv_is_kept() -> None:
    assert "SPT_NOENV" not in profile_variables({"SPT_NOENV": "0"}, comm=False, every=None, cycles=None, nvtx=None)


@pytest.mark.skipif(OLD_PYTHON is None, reason="no other Python")
def test_another_python_than_traceanas_runs_the_command() -> None:
    done = run("--python", OLD_PYTHON, "--", "python", "-c", SHOW)
    assert done.returncode == 0, done.stderr
    environ, path, executable = json.loads(done.stdout)
    assert Path(executable).samefile(str(OLD_PYTHON))
    assert str(bootstrap_folder()) in path
    # nothing else of traceana's environment leaks into the server
    assert not [p for p in path if p.startswith(sys.prefix) and "traceana_instrument" not in p]
    assert environ["EAGLE3_PROFILE"] == "1"


def test_python_stands_for_the_interpreter_of_the_command_or_the_script_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "vllm"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    python = str(folder / "python")
    assert server_command(["python3", "-m", "x"], python) == [python, "-m", "x"]
    assert server_command(["/usr/bin/python3.11", "-m", "x"], python) == [python, "-m", "x"]
    assert server_command(["vllm", "serve", "m"], python) == [str(folder / "vllm"), "serve", "m"]
    assert server_command(["--", "-m", "sglang.launch_server"], python) == [python, "-m", "sglang.launch_server"]
    with pytest.raises(TraceanaError, match="no sglang beside it"):
        server_command(["sglang", "serve"], python)
    with pytest.raises(TraceanaError, match="no such program"):
        server_command(["vllm"], str(folder / "python2"))
    with pytest.raises(TraceanaError, match="no command"):
        server_command(["--"], None)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["docker", "run", "image"], "instrument export"),
        (["sudo", "vllm", "serve"], "sudo traceana run"),
        (["ssh", "host", "vllm"], "on the machine"),
        (["python", "-I", "-m", "x"], "-I, -E"),
        (["python3", "-sE", "x.py"], "-I, -E"),
    ],
)
def test_what_keeps_the_timers_out_is_said(argv: list[str], says: str) -> None:
    lines = notes(argv, {"EAGLE3_PROFILE": "1"})
    assert len(lines) == 2
    assert says in lines[1]


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "-m", "x", "-I"],
        ["python", "-u", "x.py", "-E"],
        ["python", "-cprint(1)", "-I"],
        ["python", "-Xdev", "x"],
        ["vllm", "-I"],
    ],
)
def test_options_of_the_server_are_not_taken_for_pythons(argv: list[str]) -> None:
    assert len(notes(argv, {"EAGLE3_PROFILE": "1"})) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing argument"),
        (("--", "no-such-program-here"), "no such program"),
        (("--every", "0", "--", "true"), "every"),
        (("--cycles", "/proc/nowhere", "--", "true"), "--cycles /proc/nowhere"),
    ],
)
def test_what_cannot_be_started_is_one_line_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_file_that_is_no_program_is_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "server"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    done = run("--", broken)
    assert done.returncode == 2
    assert "cannot be started" in done.stderr


def test_the_exported_folder_works_by_pythonpath_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "traceana", "instrument", "export", "timers"]
    done = subprocess.run(command, env=ENV, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    copy, env = done.stdout.splitlines()
    assert copy == "COPY timers /opt/traceana"
    assert env == "ENV PYTHONPATH=/opt/traceana/traceana_instrument/bootstrap${PYTHONPATH:+:$PYTHONPATH}"
    assert not list((tmp_path / "timers").rglob("__pycache__"))
    bootstrap = tmp_path / "timers" / "traceana_instrument" / "bootstrap"
    code = "import sys; print('traceana_instrument' in sys.modules, [m for m in sys.modules if m == 'traceana'])"
    shown = {}
    for switch in ("0", "1"):
        alone = {"PATH": os.environ["PATH"], "PYTHONPATH": str(bootstrap), "EAGLE3_PROFILE": switch}
        python = shutil.which("python3") or sys.executable
        shown[switch] = subprocess.run(
            [python, "-c", code], env=alone, capture_output=True, text=True, timeout=60, check=False
        )
    assert shown["0"].stdout.strip() == "False []", shown["0"].stderr
    assert shown["1"].stdout.strip() == "True []", shown["1"].stderr


def test_an_export_never_overwrites_and_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traceana.environment import package

    target = tmp_path / "timers"
    target.mkdir()
    package.copy_to(target)
    assert (target / "traceana_instrument" / "bootstrap" / "sitecustomize.py").is_file()
    with pytest.raises(TraceanaError, match="not an empty folder"):
        package.copy_to(target)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(package.shutil, "copytree", full)
    with pytest.raises(TraceanaError, match="No space left"):
        package.copy_to(tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["timers"]
