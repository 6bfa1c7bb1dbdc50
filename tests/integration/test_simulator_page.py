"""The simulator's page in a real browser (needs the Debian package chromium)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.simulated import Client, simulator

pytestmark = pytest.mark.system

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=4000",
    "--window-size=1280,1100",
)


def browse(url: str, profile: Path, *arguments: str) -> str:
    """Return the document after a few seconds of the browser's time."""
    chromium = shutil.which("chromium")
    assert chromium, "Install the Debian package chromium."
    command = [chromium, *FLAGS, f"--user-data-dir={profile}", *arguments, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout


def deliver(client: Client) -> None:
    client.send("ok+0001@example.com", key="key-of-ok")
    client.send("reject+0002@example.com", key="key-of-reject")
    client.send("+15550102003", key="key-of-bounce", channel="sms")
    client.send("sim-flaky.1-0004", key="key-of-flaky", channel="push")
    client.hook("ok/0005", key="key-of-hook")


def test_the_page_says_that_nothing_has_been_delivered_yet(tmp_path: Path) -> None:
    with simulator() as client:
        page = browse(client.url, tmp_path, "--dump-dom")
    assert '<p id="state" class="soft " role="status">live</p>' in page
    assert "Nothing has been delivered yet." in page
    assert 'id="empty"><p>' in page.replace("\n", "").replace("  ", "")
    assert '<table id="entries" hidden' in page


def test_the_page_shows_effects_and_counters(tmp_path: Path) -> None:
    with simulator() as client:
        deliver(client)
        client.call("POST", "/behaviour", {"outage": "hang", "channels": ["sms"]})
        page = browse(client.url, tmp_path, "--dump-dom")
    assert "key-of-ok" in page
    assert "key-of-bounce" in page
    assert "key-of-reject" not in page  # a request without an effect: the other view
    assert "Your receipt · Thank you." in page
    assert '<span>email</span><b>1</b><span class="soft">effects of 2 requests</span>' in page
    assert "Faults switched on: outage: hang · for sms" in page


def test_what_a_message_contains_is_text_on_the_page(tmp_path: Path) -> None:
    attack = "<img src=x onerror=\"document.title='taken'\">@example.com"
    with simulator() as client:
        client.send(attack, key="k-1")
        page = browse(client.url, tmp_path, "--dump-dom")
    assert "&lt;img src=x" in page
    assert "<title>taken" not in page
