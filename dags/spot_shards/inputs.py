"""The shards' inputs: two of them are broken at first, as inputs are now and then."""

from __future__ import annotations

from pathlib import Path

BROKEN = (5, 17)


def write_shards(folder: Path, shards: int) -> None:
    """Write an input for each shard, and a broken one for some."""
    for name in ("shards", "results"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for index in range(shards):
        broken = index in BROKEN
        text = "half an upl" if broken else f"numbers {' '.join(map(str, range(index, index + 9)))}"
        (folder / "shards" / f"{index}.txt").write_text(text)


def mend(folder: Path) -> list[int]:
    """Write the broken inputs anew, and return which they were."""
    mended = []
    for path in sorted((folder / "shards").glob("*.txt")):
        if not path.read_text().startswith("numbers"):
            index = int(path.stem)
            path.write_text(f"numbers {' '.join(map(str, range(index, index + 9)))}")
            mended.append(index)
    return mended
