#!/bin/sh
# Makes the environment of the SGLang proof: a venv with what SGLang imports on a CPU, and two released wheels beside it.
# usage: install.sh DIRECTORY        (2.6 GB and five minutes; PYTHON names a CPython 3.11, default python3.11)
# pip's own configuration says where the packages come from; any CPU build of torch 2.13 will do.
set -eu
dir=${1:?usage: install.sh DIRECTORY}
mkdir -p "$dir"
"${PYTHON:-python3.11}" -m venv "$dir/venv"
pip="$dir/venv/bin/pip"
"$pip" install --quiet "torch==2.13.0+cpu" transformers==5.6.0 numpy triton orjson psutil pyzmq requests fastapi uvicorn \
    uvloop setproctitle pybase64 msgspec prometheus-client pillow einops aiohttp packaging pydantic python-multipart \
    partial_json_parser interegular sentencepiece tiktoken gguf scipy nvidia-ml-py ninja openai==2.6.1 \
    openai-harmony==0.0.4 anthropic IPython llguidance dill apache-tvm-ffi py-spy easydict outlines_core diskcache \
    jsonschema lark cloudpickle loguru
# these would pull in other versions of what is there
"$pip" install --quiet --no-deps compressed-tensors xgrammar==0.2.0
for version in 0.5.9 0.5.12; do
    "$pip" install --quiet --no-deps --target "$dir/sglang-$version" "sglang==$version"
done
