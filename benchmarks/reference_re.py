"""The reference of `logs.py`: what a script for one log does. A loop over the lines, one `re` pattern, ten lists.

    python benchmarks/reference_re.py LOG

It reads the decode lines only and their fields only, and keeps them in memory; it writes nothing. Prints rows and sums.
"""

from __future__ import annotations

import json
import re
import sys

DECODE = re.compile(
    rb"\[([0-9-]+ [0-9:]+)((?: [A-Z]+[0-9]+)*)\] Decode batch, #running-req: ([0-9]+), #token: ([0-9]+), "
    rb"token usage: ([0-9.]+), accept len: ([0-9.]+), accept rate: ([0-9.]+), cuda graph: (\w+), "
    rb"gen throughput \(token/s\): ([0-9.]+), #queue-req: ([0-9]+)"
)


def decode_fields(path: str) -> tuple[list[object], ...]:
    """Columns of the decode lines: time, ranks, running, tokens, usage, length, rate, graph, throughput, queued."""
    time, ranks, running, tokens, usage, length, rate, graph, throughput, queued = columns = tuple(
        [] for _ in range(10)
    )
    with open(path, "rb") as log:
        for line in log:
            if b"Decode batch" in line and (found := DECODE.search(line)):
                fields = found.groups()
                time.append(fields[0].decode())
                ranks.append(fields[1].decode())
                running.append(int(fields[2]))
                tokens.append(int(fields[3]))
                usage.append(float(fields[4]))
                length.append(float(fields[5]))
                rate.append(float(fields[6]))
                graph.append(fields[7] == b"True")
                throughput.append(float(fields[8]))
                queued.append(int(fields[9]))
    return columns


if __name__ == "__main__":
    columns = decode_fields(sys.argv[1])
    print(
        json.dumps(
            {
                "decode": len(columns[0]),
                "sum_running": sum(columns[2]),
                "sum_gen_tps_x100": sum(round(value * 100) for value in columns[8]),
            }
        )
    )
