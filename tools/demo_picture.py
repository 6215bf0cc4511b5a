"""Draws the picture of the demonstration's report that the README shows.

    make demo && .venv/bin/python tools/demo_picture.py

Headless Chromium renders the page; Debian's package is `chromium`. Run it again when the report
looks different, and commit the picture.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
"""A browser that only draws a file needs nothing from the network."""


def draw(browser: str, page: Path, picture: Path, width: int, height: int) -> None:
    """Writes the first `height` pixels of the page as a PNG; ValueError with the browser's last
    words if there is none.
    """
    picture.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        looks = ("--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", f"--user-data-dir={profile}")
        size = (f"--window-size={width},{height}", f"--screenshot={picture}")
        done = subprocess.run([browser, *looks, *QUIET, *size, page.as_uri()], capture_output=True, text=True, timeout=120)
    if not picture.exists():
        raise ValueError(f"{browser} drew nothing (exit {done.returncode}): {done.stderr.strip()[-300:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, default=REPOSITORY / "build/demo/report.html", help="the page that is drawn")
    parser.add_argument("--picture", type=Path, default=REPOSITORY / "docs/demo.png", help="where the PNG goes")
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), None), help="default: the first that is on the PATH")
    parser.add_argument("--size", type=int, nargs=2, default=(1000, 930), metavar=("WIDTH", "HEIGHT"), help="in pixels")
    options = parser.parse_args()
    if options.browser is None:
        print(f"no browser on the PATH ({', '.join(BROWSERS)})", file=sys.stderr)
        return 1
    if not options.report.is_file():
        print(f"{options.report} is not there: run `make demo` first", file=sys.stderr)
        return 1
    try:
        draw(options.browser, options.report.resolve(), options.picture.resolve(), *options.size)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
