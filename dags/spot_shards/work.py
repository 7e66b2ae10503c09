"""What the container of each index runs: read the shard's input, work on it for a while, write its result.

Written whole or not at all, so a shard that is lost half way and runs again does no harm.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

SECONDS = 2.0


def main() -> None:
    """Work on the shard that JOB_COMPLETION_INDEX names, in the folder that the argument names."""
    folder, index = Path(sys.argv[1]), int(os.environ["JOB_COMPLETION_INDEX"])
    text = (folder / "shards" / f"{index}.txt").read_text()
    if not text.startswith("numbers"):
        sys.exit(f"shard {index}: this is no input: {text!r}")
    until = time.monotonic() + SECONDS
    total = 0
    while time.monotonic() < until:  # a program would do its work here
        total += sum(map(int, text.split()[1:]))
        time.sleep(0.02)
    half = folder / "results" / f"{index}.{os.getpid()}.half"
    half.write_text(f"{sum(map(int, text.split()[1:]))}\n")
    half.replace(folder / "results" / f"{index}.txt")
    print(f"shard {index}: done on {os.environ.get('NODE', '')}")


if __name__ == "__main__":
    main()
