"""Makes the pictures of docs/gallery.md by running the code below each of them.

python examples/make_gallery.py
"""

from __future__ import annotations

import os
import re
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: an optional picture, then the code that draws it
BLOCK = re.compile(r"(?:!\[[^\]]*\]\((?P<image>[^)]+)\)\n+)?```python\n(?P<code>.*?)```", re.DOTALL)
COLOURS = 64


def main() -> None:
    """Run the page from top to bottom and save the figure that each block leaves."""
    namespace: dict[str, Any] = {}
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for block in BLOCK.finditer(text):
            exec(block["code"], namespace)
            if block["image"] is not None:
                save(namespace["ax"].figure, DOCS / block["image"])


def save(figure: Figure, path: Path) -> None:
    """The figure as a PNG with few colours, which keeps the file small."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=80, bbox_inches="tight", metadata={"Software": None})
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
