"""What the engines' own objects say: batch, draft tokens, acceptance. Looked at, not changed, not copied from a GPU.

A reader gets the call (self, args, kwargs), its result and the recorder. It reads by name and gives None where an
engine looks different; an error in it is caught by the wrapper. None of them may touch a value that lives on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traceana_instrument.cycle import Facts
from traceana_instrument.recorder import Recorder

DRAFTED = "_traceana_drafted"  # put on vLLM's own output object: the requests whose tokens are a verify's


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    """An argument by place (self is 0) or name."""
    return args[place] if len(args) > place else kwargs.get(name)


# ---- cycles


def vllm_step(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Facts | None:
    """A step of vLLM: None with a prefill or a new request in it, in a dummy run, and where nothing speculates."""
    if kwargs.get("dummy_run"):
        return None
    runner = args[0]
    scheduled = argument(args, kwargs, 1, "scheduler_output")
    spec = getattr(scheduled, "scheduled_spec_decode_tokens", None)
    if spec is None:  # the first V1 engines did not speculate
        return None
    recorder.drafted = spec.keys()
    if getattr(runner, "speculative_config", None) is None or scheduled.scheduled_new_reqs:
        return None
    requests = scheduled.num_scheduled_tokens
    # a decoding request has its drafts and one token more; a prefill has more than that
    if not requests or scheduled.total_num_scheduled_tokens != len(requests) + sum(map(len, spec.values())):
        return None
    return Facts(len(requests), vllm_k(runner), len(spec), next(iter(requests)))


def vllm_v0_step(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Facts | None:
    """A speculative step of the V0 engine: it runs only where every request decodes."""
    request = argument(args, kwargs, 1, "execute_model_req")
    k = argument(args, kwargs, 2, "num_lookahead_slots")
    batch = request.seq_group_metadata_list
    if not batch:
        return None
    drafting = not getattr(request, "no_spec", False)
    return Facts(len(batch), k if isinstance(k, int) else None, len(batch) if drafting else 0, batch[0].request_id)


def vllm_k(runner: Any) -> int | None:
    """Draft tokens per cycle as configured."""
    config = getattr(runner, "speculative_config", None)
    k = getattr(config, "num_speculative_tokens", None)
    return k if isinstance(k, int) else None


def sglang_batch(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Facts | None:
    """A batch of SGLang; prefills have no verify in them and are dropped for that."""
    worker = args[0]
    batch = argument(args, kwargs, 1, "batch")
    if batch is None:
        batch = kwargs.get("model_worker_batch")
    requests = getattr(batch, "reqs", None)
    if requests is None:
        lengths = getattr(batch, "seq_lens", None)
        size, anchor = (len(lengths), None) if lengths is not None else (0, None)
    else:
        size, anchor = len(requests), getattr(requests[0], "rid", None) if requests else None
    return Facts(size, sglang_k(worker), size, anchor) if size else None


def sglang_k(worker: Any) -> int | None:
    """Draft tokens per cycle of a chain: num_draft_tokens - 1; None for trees (topk > 1)."""
    args = getattr(worker, "server_args", None)
    topk = getattr(worker, "topk", None)
    if topk is None:
        topk = getattr(args, "speculative_eagle_topk", None)
    width = getattr(worker, "speculative_num_draft_tokens", None)
    if width is None:
        width = getattr(args, "speculative_num_draft_tokens", None)
    return width - 1 if isinstance(width, int) and topk in (None, 1) else None


# ---- acceptance: (source, requests that had a draft, tokens they emitted, drafts accepted per request)


def vllm_output(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Any:
    """sample_tokens: the tokens themselves, or an output that will have them (async scheduling)."""
    drafted, recorder.drafted = recorder.drafted, ()
    if not drafted:
        return None
    if hasattr(result, "get_output"):
        setattr(result, DRAFTED, frozenset(drafted))
        return None
    return _lengths(result, drafted)


def vllm_async_output(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Any:
    """get_output of an asynchronous output: the tokens are on the CPU now."""
    drafted = args[0].__dict__.pop(DRAFTED, ())
    return _lengths(result, drafted) if drafted else None


def vllm_execute_output(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Any:
    """execute_model of runners that accept in the same call."""
    scheduled = argument(args, kwargs, 1, "scheduler_output")
    drafted = getattr(scheduled, "scheduled_spec_decode_tokens", {}).keys()
    return _lengths(result, drafted) if drafted and result is not None else None


def _lengths(output: Any, drafted: Any) -> Any:
    tokens = getattr(output, "sampled_token_ids", None)
    if not isinstance(tokens, list):
        return None
    # vLLM counts a request where tokens came out of its draft; a discarded one has none (0.11.1: they are numpy arrays)
    emitted = [len(ids) for name, ids in zip(output.req_ids, tokens) if len(ids) and name in drafted]
    return ("result", len(emitted), sum(emitted), [length - 1 for length in emitted]) if emitted else None


def sglang_verify(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Any:
    """verify of the V1 workers: accepted drafts per request, a list on the CPU."""
    for part in result if isinstance(result, tuple) else (result,):
        for name in _PER_REQUEST:
            lengths = getattr(part, name, None)
            if isinstance(lengths, list) and lengths:
                return "result", len(lengths), sum(lengths) + len(lengths), lengths
    return None


#: drafts accepted per request, without the bonus token in spite of the first name: to 0.5.10, 0.5.11, 0.5.12
_PER_REQUEST = (
    "accept_length_per_req_cpu",
    "num_accepted_drafts_per_req_cpu",
    "num_correct_drafts_per_req_cpu",
)


def sglang_spec_metrics(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> Any:
    """update_spec_metrics(bs, accepted drafts): what SGLang's own accept length is made of."""
    size = argument(args, kwargs, 1, "bs")
    accepted = args[2] if len(args) > 2 else next((kwargs[name] for name in _ACCEPTED if name in kwargs), None)
    if not isinstance(size, int) or not isinstance(accepted, int) or size <= 0:
        return None
    return "engine", size, size + accepted, ()


_ACCEPTED = ("num_accepted_tokens", "num_accepted_drafts", "num_correct_drafts")


# ---- collectives: bytes


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, recorder: Recorder) -> int:
    """Bytes of the first tensor among the arguments; 0 where there is none."""
    for value in (*args[1:], *kwargs.values()):
        if hasattr(value, "element_size") and hasattr(value, "numel"):
            return int(value.numel() * value.element_size())
    return 0


# ---- conditions


def is_verify(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """The call says that it is the target's verify."""
    return bool(kwargs.get("is_verify") or kwargs.get("skip_sample"))


def draft_runner(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """The model runner is the drafter's."""
    return bool(getattr(args[0], "is_draft_worker", False))


Reader = Callable[[tuple[Any, ...], "dict[str, Any]", Any, Recorder], Any]
Condition = Callable[[tuple[Any, ...], "dict[str, Any]"], bool]

READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        vllm_step,
        vllm_v0_step,
        sglang_batch,
        vllm_output,
        vllm_async_output,
        vllm_execute_output,
        sglang_verify,
        sglang_spec_metrics,
        first_tensor,
    )
}
CONDITIONS: dict[str, Condition] = {"is_verify": is_verify, "draft_runner": draft_runner}
