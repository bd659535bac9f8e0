"""Environment variables and captured output of an Nsight export: what is read out, and that secrets never are."""

from pathlib import Path

import pytest

from tests.parsers.traces.build_nsight import GEMM, Export, server
from tests.parsers.traces.nsight_reading import everything, read_export
from traceana_parsers.traces.nsight_environment import allowed

TOKEN = "hf_QmFkSW52ZW50ZWRUb2tlbjEyMzQ1"  # invented


def settings(export: Export, folder: Path) -> list[tuple[str, str, int | None, str]]:
    tables, report = read_export(export.write(folder / "rep.sqlite"))
    assert report.problem is None
    return tables["settings"].select("name", "value", "pid", "origin").rows()


@pytest.mark.parametrize(
    ("name", "read_out"),
    [
        ("NCCL_PROTO", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", True),
        ("VLLM_USE_V1", True),
        ("SGLANG_ENABLE_SPEC_V2", True),
        ("SGL_KERNEL", True),
        ("VLLM_API_KEY", False),
        ("SGLANG_ADMIN_TOKEN", False),
        ("NCCL_SECRET_X", False),
        ("CUDA_PASSWORD", False),
        ("VLLM_AUTH_HEADER", False),
        ("HF_TOKEN", False),
        ("PATH", False),
        ("MY_NCCL_PROTO", False),
        ("nccl_proto", False),
        ("NCCL_PROTO X", False),
    ],
)
def test_a_value_is_read_only_of_known_names_without_a_secret_word(name: str, read_out: bool) -> None:
    assert allowed(name) is read_out


def test_variables_of_the_launched_command_are_settings(tmp_path: Path) -> None:
    export = Export("2025.1")
    for text in ('NCCL_PROTO="LL"', 'NCCL_ALGO="Ring"', 'HOME="/root"', "NCCL_DEBUG=INFO", 'NCCL_EMPTY=""'):
        export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", text)
    assert settings(export, tmp_path) == [
        ("NCCL_PROTO", "LL", None, "launch_env"),
        ("NCCL_ALGO", "Ring", None, "launch_env"),
        ("NCCL_DEBUG", "INFO", None, "launch_env"),
        ("NCCL_EMPTY", "", None, "launch_env"),
    ]


def test_variables_are_found_in_every_place_once(tmp_path: Path) -> None:
    export = Export()
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'NCCL_PROTO="LL"')
    export.host("DeviceEnvironment", "HOME=/root;NCCL_PROTO=LL;NCCL_P2P_LEVEL=SYS")
    export.output(4242, "/proc/4242/environ", "NCCL_PROTO=LL\0NCCL_MIN_NCHANNELS=8\0")
    export.string("VLLM_USE_V1=1\0NCCL_PROTO=LL\0LANG=C")
    assert sorted(settings(export, tmp_path)) == [
        ("NCCL_MIN_NCHANNELS", "8", 4242, "launch_env"),
        ("NCCL_P2P_LEVEL", "SYS", None, "launch_env"),
        ("NCCL_PROTO", "LL", 4242, "launch_env"),
        ("VLLM_USE_V1", "1", None, "launch_env"),
    ]


def test_processes_that_differ_keep_their_own_values(tmp_path: Path) -> None:
    export = Export()
    for pid, value in ((1, "LL"), (2, "Simple")):
        export.output(pid, f"/proc/{pid}/environ", f"NCCL_PROTO={value}\0")
    assert settings(export, tmp_path) == [
        ("NCCL_PROTO", "LL", 1, "launch_env"),
        ("NCCL_PROTO", "Simple", 2, "launch_env"),
    ]


def planted() -> Export:
    """A capture with a token in every place where an environment or a command line may lie."""
    export = server("2026.2", "node")
    for name in ("HF_TOKEN", "VLLM_API_KEY", "SGLANG_AUTH_TOKEN", "NCCL_SECRET", "AWS_SESSION", "CUDA_PASSWORD"):
        export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{TOKEN}"')
        export.host("DeviceEnvironment", f"A=b;{name}={TOKEN};C=d")
        export.string(f"A=b\0{name}={TOKEN}\0NCCL_PROTO=LL")
        export.string(f"{name}={TOKEN}\0A=b")
        export.output(4000, "/proc/4000/environ", f"A=b\0{name}={TOKEN}\0")
    export.capture("PROCESS_0:ARGUMENT_3", f"--api-key={TOKEN}")
    export.capture("PROCESS_0:COMMAND", f"HF_TOKEN={TOKEN} python")
    export.meta("EXPORT_PARAM_INPUT_FILE", f"{TOKEN}.nsys-rep")
    export.output(4000, "/root/.config/nsys-config.ini", f"token={TOKEN}")
    export.add("PROCESSES", globalPid=1, pid=1, name=f"curl -H {TOKEN}")
    export.title(4000, f"curl {TOKEN}", 77)
    export.add("DIAGNOSTIC_EVENT", timestamp=1, severity=1, text=f"HF_TOKEN={TOKEN} was set")
    # an environment where a name should be: damaged or hostile
    block = export.string(f"HF_TOKEN={TOKEN}\0A=b")
    export.kernel(4000, GEMM, 5, 6, 9_999, demangledName=block)
    export.nvtx(4000, None, 5, 6, textId=block)
    return export


@pytest.mark.parametrize("form", ["sqlite", "parquet", "arrow"])
def test_a_planted_token_never_appears_in_any_table(form: str, tmp_path: Path) -> None:
    export = planted()
    path = tmp_path / "rep.sqlite"
    made = export.write(path) if form == "sqlite" else export.write_folder(tmp_path / "rep", f".{form}")
    assert TOKEN.encode() in (
        path.read_bytes() if form == "sqlite" else b"".join(p.read_bytes() for p in made.iterdir())
    )
    tables, report = read_export(made)
    assert report.problem is None and ("NCCL_PROTO", "LL") in tables["settings"].select("name", "value").rows()
    assert TOKEN not in everything(tables)
    assert TOKEN not in repr(report)


@pytest.mark.parametrize("folder", [False, True])
def test_captured_output_is_handed_on_as_it_is(folder: bool, tmp_path: Path) -> None:
    export = Export()
    log = "[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1\r\n" * 3_000 + "\u00e9\n"
    export.output(125, "/tmp/nvidia/nsight_systems/streams/pid_125_stdout.log", log)
    export.output(125, "/tmp/nvidia/nsight_systems/streams/pid_125_stderr.log", " \n")
    export.output(125, "/root/.config/NVIDIA Corporation/nsys-config.ini", "CuptiUseRawGpuTimestamps=false")
    export.kernel(125, GEMM, 1, 2, 1)
    path = export.write_folder(tmp_path / "rep") if folder else export.write(tmp_path / "rep.sqlite")
    got: list[tuple[str, bytes]] = []
    tables, _ = read_export(path, lambda name, content: got.append((name, content)))
    assert got == [("/tmp/nvidia/nsight_systems/streams/pid_125_stdout.log", log.encode())]
    assert "Decode batch" not in everything(tables)


def test_what_scrubbing_left_behind_is_no_value(tmp_path: Path) -> None:
    export = Export()
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'NCCL_PROTO="[removed]"')
    export.host("DeviceEnvironment", "[removed]")
    export.kernel(125, GEMM, 1, 2, 1)
    assert settings(export, tmp_path) == []
