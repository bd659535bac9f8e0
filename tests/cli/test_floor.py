"""`traceana floor`: the founding box, and questions that have no answer."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from traceana.cli.floor import floor
from traceana.errors import EXIT_UNUSABLE, TraceanaError

app = typer.Typer()
app.command()(floor)

BOX = ("--gpu", "RTX PRO 6000", "--tp", "8")
SHAPE = ("--layers", "61", "--hidden", "7168")


def run(*options):
    return CliRunner().invoke(app, [str(option) for option in options])


def document(*options):
    result = run(*options, "--format", "json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def refused(*options):
    error = run(*options).exception
    assert isinstance(error, TraceanaError)
    assert error.exit_code == EXIT_UNUSABLE
    assert "\n" not in error.message
    return error.message


def test_a_config_tells_the_weights_of_a_forward_too(tmp_path):
    config = {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64}
    config |= {"num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = document("--gpu", "H100", "--tp", 8, "--config", tmp_path / "config.json", "--tokens", "4")
    (weights,) = found["weights"]
    assert weights["low_ms"] == weights["high_ms"] == pytest.approx(17.375 / 3350 * 1000, rel=0.001)
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "zamba"}))
    found = document("--gpu", "H100", "--tp", 8, "--config", tmp_path / "config.json", "--tokens", "4")
    assert found["weights"] == []
    assert any("zamba" in note for note in found["notes"])


def test_the_founding_box_at_1_4_and_16_tokens():
    found = document(*BOX, *SHAPE, "--tokens", "1,4,16")
    assert found["schema"] == "traceana/floor/1"
    assert found["allreduces"] == 122
    assert found["provenance"] == "modelled"
    nccl = next(curve for curve in found["curves"] if curve["library"] == "nccl")
    assert [round(p["forward_ms"], 2) for p in nccl["points"]] == [3.29, 4.05, 9.26]
    assert [p["message_bytes"] for p in nccl["points"]] == [14336, 57344, 229376]
    assert [round(e["forward_ms"], 1) for e in found["extras"]] == [8.2, 10.1, 2.8]


def test_the_table_of_a_person_says_the_same_and_that_it_is_modelled():
    text = run(*BOX, *SHAPE).stdout
    assert "nccl 2.29.2" in text
    assert all(cell in text for cell in ("3.29", "4.05", "9.26", "modelled"))


def test_a_shape_from_config_json(tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"text_config": {"num_hidden_layers": 61, "hidden_size": 7168}}')
    found = document(*BOX, "--config", config)
    assert (found["layers"], found["hidden"], found["shape_from"]) == (61, 7168, "from config.json")


def test_a_shape_from_a_model_s_name_is_called_assumed():
    assert "assumed" in document(*BOX, "--model", "moonshotai/Kimi-K2.5")["shape_from"]


def test_ranks_that_nobody_measured_give_no_number():
    found = document("--gpu", "H100", "--tp", 3, *SHAPE)
    assert found["curves"] == []
    assert "2, 4, 8 GPUs" in found["notes"][0]


def test_one_gpu_has_no_allreduce():
    found = document("--gpu", "H100", "--tp", 1, *SHAPE)
    assert (found["curves"], found["allreduces"], found["extras"]) == ([], 0, [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpu", "abacus", "--tp", 8, *SHAPE), "not in the table"),
        ((*BOX,), "shape is missing"),
        ((*BOX, "--model", "nobody/knows"), "not in the table"),
        ((*BOX, *SHAPE, "--tokens", "1,x"), "--tokens"),
        ((*BOX, *SHAPE, "--tokens", "0"), "--tokens"),
        (("--gpu", "H100", "--tp", 0, *SHAPE), "--tp"),
        ((*BOX, "--config", "/does/not/exist.json"), "No such file"),
        ((*BOX, *SHAPE, "--weight-gb", "nan"), "--weight-gb"),
    ],
)
def test_questions_without_an_answer_get_one_line(options, words):
    assert words in refused(*options)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b'{"hidden_size": "x"}', b"\xff\x00"])
def test_a_config_that_is_none(tmp_path, content):
    config = tmp_path / "config.json"
    config.write_bytes(content)
    assert "config.json" in refused(*BOX, "--config", config)
