"""Run in the environment of install.sh: imports real SGLang workers and drives their own cycle methods with fake parts.

drive.py applied           imports every module of the hook table; prints what was wrapped and what is missing
drive.py cycle V1|V2       replaces draft, verify and the draft-extend by stand-ins that sleep, starts the timers (by
                           SGLang's own load_plugins where it has that) and runs forward_batch_generation
"""

import contextlib
import importlib
import json
import os
import sys
import time
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import stubs  # noqa: F401

CYCLES = 20


def applied() -> dict:
    """The bootstrap has begun before this script: every module is wrapped as it is imported."""
    from traceana_instrument import hooks_sglang
    from traceana_instrument.hook import expected
    from traceana_instrument.install import install

    sglang = importlib.import_module("sglang")
    failed = {}
    rows = [row for row in hooks_sglang.HOOKS if expected(row, sglang.__version__)]
    for name in dict.fromkeys(row.module for row in rows):
        try:
            importlib.import_module(name)
        except Exception as error:
            failed[name] = repr(error)[:200]
    installed = install()
    done = set(installed.applied)
    loaded = [row for row in rows if row.module not in failed]
    return {
        "version": sglang.__version__,
        "expected": len(loaded),
        "missing": [row.target for row in loaded if row not in done],
        "failed": failed,
        "unexpected": [row.target for row in installed.applied if not expected(row, sglang.__version__)],
    }


def context(*_: object) -> contextlib.nullcontext:
    return contextlib.nullcontext()


def sleeps(ms: float, result: object = None) -> object:
    def part(self: object, *args: object, **kwargs: object) -> object:
        time.sleep(ms / 1e3)
        return result

    return part


def cycle(which: str) -> None:
    name = {"V1": "eagle_worker", "V2": "eagle_worker_v2"}[which]
    module = importlib.import_module(f"sglang.srt.speculative.{name}")
    module.speculative_moe_backend_context = module.speculative_moe_a2a_backend_context = context
    tensor = types.SimpleNamespace(shape=(2,))
    if which == "V1":
        owner = module.EAGLEWorker
        sglang = importlib.import_module("sglang")
        verified = types.SimpleNamespace(
            accept_length_per_req_cpu=[2, 0], num_correct_drafts_per_req_cpu=[2, 0], verified_id=[1]
        )
        verified.accept_tokens = [1]
        verified.draft_extend_input = types.SimpleNamespace(input_ids=tensor)
        values = (None, verified, True) if sglang.__version__ == "0.5.12" else (None, verified, None, True)
        owner.verify = sleeps(30, values)
        owner.draft, owner.forward_draft_extend_after_decode = sleeps(15), sleeps(5)
        worker = object.__new__(owner)
        owner.draft_model_runner = types.SimpleNamespace(tp_group=None)
        worker.draft_tp_context = context
    else:
        owner, drafter = module.EAGLEWorkerV2, module.EagleDraftWorker
        owner.verify = sleeps(30, "result")
        drafter.draft = sleeps(15, types.SimpleNamespace(is_verify_input=lambda: True))
        drafter._draft_extend_for_decode = sleeps(5)
        worker, draft = object.__new__(owner), object.__new__(drafter)
        draft.draft_runner, draft.draft_tp_context = types.SimpleNamespace(tp_group=None), context
        worker.__dict__.update(_draft_worker=draft, plan_stream=None)
        if "draft_worker" not in dir(owner):
            worker.draft_worker = draft
    worker.__dict__.update(
        server_args=types.SimpleNamespace(enable_dp_attention=False, speculative_algorithm="EAGLE3"),
        adaptive_controller=None, topk=1, speculative_num_draft_tokens=4, speculative_num_steps=3,
    )  # fmt: skip
    decode = types.SimpleNamespace(is_extend=lambda: False, is_idle=lambda: False)
    batch = types.SimpleNamespace(
        forward_mode=decode, is_extend_in_batch=False, spec_info=types.SimpleNamespace(verified_id=tensor),
        reqs=[types.SimpleNamespace(rid="a"), types.SimpleNamespace(rid="b")],
    )  # fmt: skip

    os.environ.update(EAGLE3_PROFILE="1", EAGLE3_PROFILE_CYCLES="1000", EAGLE3_PROFILE_TO="stderr")
    try:
        from sglang.srt.plugins import load_plugins
    except ImportError:
        from traceana_instrument.plugin import register as load_plugins
    load_plugins()
    assert hasattr(owner.verify, "__wrapped__") and hasattr(owner.forward_batch_generation, "__wrapped__")
    for _ in range(CYCLES):
        owner.forward_batch_generation(worker, batch)
        batch.spec_info = types.SimpleNamespace(verified_id=tensor)


if sys.argv[1] == "applied":
    sys.stdout.write(json.dumps(applied()) + "\n")
else:
    cycle(sys.argv[2])
