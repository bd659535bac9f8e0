"""Every command the pages print runs, and every option there is is documented."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from tests.docs.pages import DOCS, PAGES, ROOT, blocks, rows, section, text_of
from traceana import api, api_whatif, errors
from traceana.cli.app import app
from traceana.facts.whatif_model import Asked
from traceana.report.documents import render_document
from traceana.report.whatif_page import compose

DEMO = ROOT / "fixtures" / "demo"
#: exit codes of commands that rightly do not end with 0
ENDS_WITH = {"traceana diagnose server.log --fail-on warning": errors.EXIT_FAILED_CHECK}
EXAMPLES = [row[2].strip("`") for row in rows(section(ROOT / "README.md", "## Commands"))]
PRINTED = [
    line
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if "traceana " in line and "venv" not in line
]
COMMANDS = list(dict.fromkeys([*EXAMPLES, *PRINTED]))
#: examples that need a server or an engine: they are only parsed
NEED_AN_ENGINE = [
    c for c in COMMANDS if re.match(r"traceana (run .*-- (vllm|python -m sglang)|env( \d+|$)|instrument hooks)", c)
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copy(DEMO / "server.log", folder / "server.log")
    shutil.copy(DEMO / "plain.log", folder / "plain.log")
    (folder / "logs").mkdir()
    shutil.copy(DEMO / "server.log", folder / "logs" / "server.log")
    (folder / "traces").mkdir()
    for trace in (ROOT / "fixtures" / "traces" / "kineto").glob("*-TP-*.trace.json.gz"):
        shutil.copy(trace, folder / "traces" / trace.name)
    (folder / "launch.sh").write_text("export NCCL_P2P_LEVEL=SYS\n")
    shape = {"model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 64}
    (folder / "config.json").write_text(json.dumps({**shape, "intermediate_size": 25600, "vocab_size": 151936}))
    found = api_whatif.predict([str(folder / "server.log")], [str(folder / "plain.log")], Asked())
    (folder / "predictions.json").write_text(render_document(found, compose, "json"))
    api.ingest([str(folder / "server.log")], str(folder / "store"), "monday")
    return folder


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in NEED_AN_ENGINE])
def test_a_printed_command_runs(command: str, desk: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=desk,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == ENDS_WITH.get(command, 0), done.stderr
    assert done.stdout or " -o " in command


@pytest.mark.parametrize("command", NEED_AN_ENGINE)
def test_a_printed_command_that_needs_an_engine_is_one_the_program_takes(command: str) -> None:
    group = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    name = "traceana"
    while hasattr(group, "commands"):
        name, words = words[0], words[1:]
        group = group.commands[name]
    group.make_context(name, words)


def test_there_are_examples_of_every_command() -> None:
    for name in typer.main.get_command(app).commands:
        assert any(f"traceana {name}" in command for command in PRINTED), name


def test_the_readme_has_one_example_of_every_command() -> None:
    assert sorted(example.split()[1] for example in EXAMPLES) == sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize(
    "name",
    [
        "diagnose",
        "compare",
        "sweep",
        "check",
        "ledger",
        "ingest",
        "breakeven",
        "floor",
        "whatif",
        "explain",
        "run",
        "env",
        "instrument hooks",
    ],
)
def test_every_option_is_documented_and_every_documented_option_exists(name: str) -> None:
    command = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    real = {
        option
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in (*parameter.opts, *parameter.secondary_opts)
    } - {"--help", "-h"}
    documented = {
        option
        for row in rows(section(DOCS / "cli.md", f"## {name}"))
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row[0])
    }
    assert documented == real


def test_exit_codes_are_those_of_the_program() -> None:
    documented = {int(row[0]) for row in rows(section(DOCS / "cli.md", "## Exit codes"))}
    assert documented == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def test_the_marked_set_up_commands_are_one_line_each() -> None:
    page = text_of(ROOT / "README.md")
    for name in ("diagnose-command", "test-command"):
        block = page.split(f"<!-- {name} -->")[1].split("<!-- end -->")[0]
        lines = [line for line in block.splitlines() if line and not line.startswith("```")]
        assert len(lines) == 1
        assert lines[0].startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
