"""traceana says why speculative decoding is slow, from logs, traces and benchmarks of SGLang and vLLM.

The package is heavy only inside its functions: importing it loads neither polars nor pyarrow.
"""

__version__ = "0.1.0"
