"""``python -m asterism`` is the same as the command ``asterism``."""

from __future__ import annotations

from asterism.cli import main

if __name__ == "__main__":
    main()
