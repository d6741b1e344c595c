"""Makes the picture of the README from a finished demonstration.

    asterism demo -o RUN
    python examples/make_readme_images.py RUN

Needs Chromium, its driver and selenium (pip install -e '.[browser]').
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1280, 1000


def screenshot(page: Path, image: Path) -> None:
    """The page down to the end of the drawing, as a browser shows it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--window-size={WIDTH},{HEIGHT}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    try:
        browser.get(page.resolve().as_uri())
        end = browser.execute_script(
            "return document.querySelector('.legend').getBoundingClientRect().bottom;"
        )
        size = {"width": WIDTH, "height": int(end) + 10, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.save_screenshot(str(image))
    finally:
        browser.quit()


def main(folder: Path) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    screenshot(folder / "report.html", IMAGES / "report.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "RUN"))
