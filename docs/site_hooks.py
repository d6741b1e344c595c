"""What the documentation site needs besides the pages in this folder.

Some pages live elsewhere in the repository, where GitHub shows them. Here they join the site under
names of their own, and links between both places are turned to where the page is.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
#: file in the repository: page of the site
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "results.md",
    "tests/faults/ATTACKS.md": "attacks.md",
}
#: linked from pages, and part of another one
OTHERS = {"README.md": "index.md", "CITATION.cff": "changes.md"}
SOURCES = {page: source for source, page in PAGES.items()}
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
#: for the tests (tests/unit/test_docs_run.py); the site would not take such a block for code
NOT_TESTED = re.compile(r"^(```python) notest$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that live outside of this folder; index.md is written for the site itself."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn relative links to where the pages are on the site, and drop marks meant for tests."""
    here = page.file.src_uri
    folder = str(PurePosixPath(SOURCES.get(here, f"docs/{here}")).parent)

    def turned(link: re.Match[str]) -> str:
        target = normpath(f"{folder}/{link[1]}")
        inside = {**PAGES, **OTHERS}.get(target, target.removeprefix("docs/"))
        return f"]({relpath(inside, str(PurePosixPath(here).parent))}"

    return NOT_TESTED.sub(r"\1", LINK.sub(turned, markdown))
