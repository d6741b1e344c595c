"""What the documentation site needs besides the pages in this folder.

Some pages live at the root of the repository, where GitHub shows them. Here they join the site
under names of their own, and links between both places are turned to where the page is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
#: file at the root: page of the site
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CITATION.cff": "changes.md",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that live at the root; index.md is written for the site itself."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        path = ROOT / name
        if path.is_file():
            text = re.sub(r"\]\(docs/", "](", path.read_text(encoding="utf-8"))
            files.append(File.generated(config, PAGES[name], content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files at the root become links to their pages."""
    for name, target in PAGES.items():
        depth = page.file.src_uri.count("/")
        markdown = markdown.replace(f"](../{'../' * depth}{name})", f"]({'../' * depth}{target})")
        markdown = markdown.replace(f"]({name})", f"]({'../' * depth}{target})")
    return markdown
