"""A headless Chromium driven over its DevTools pipe: pages, scripts, keys, the mouse, media, pictures, prints.

The protocol is that of https://chromedevtools.github.io/devtools-protocol (messages of JSON, each ended by a NUL, on
the descriptors 3 and 4 of the browser).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
    "--hide-scrollbars",
)  # fmt: skip
PATIENCE_S = 60.0


class Browser:
    """One browser with one page; `messages` are what the console said and the exceptions that nobody caught."""

    def __init__(self, profile: Path) -> None:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def wire() -> None:
            # Through high descriptors, since 3 and 4 may be among those that are moved.
            first, second = os.dup2(to_read, 100), os.dup2(from_write, 101)
            os.dup2(first, 3)
            os.dup2(second, 4)

        words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            words, preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        self._out, self._in, self._rest, self._number = to_write, from_read, b"", 0
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._session: str | None = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self._ask(f"{domain}.enable")
        self.size(1280, 900)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=PATIENCE_S)
        os.close(self._out)
        os.close(self._in)

    def open(self, page: Path) -> None:
        """Load a page and wait until it is there."""
        self.messages, self.requests, self._loaded = [], [], False
        self._ask("Page.navigate", url=page.as_uri())
        until = time.monotonic() + PATIENCE_S
        while not self._loaded and time.monotonic() < until:
            self._take()
        assert self._loaded, "the page was not loaded in time"

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key, as a keyboard does."""
        code = {
            "Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
            "ArrowRight": 39, "ArrowDown": 40,
        }[name]  # fmt: skip
        text = {"text": "\r"} if name == "Enter" else {}
        about = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._ask("Input.insertText", text=text)

    def point(self, script: str, click: bool = False) -> None:
        """Bring the mouse over the middle of the element that an expression gives, and click it."""
        box = self.run(
            f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1]}
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            button = {"button": "left", "clickCount": 1}
            self._ask("Input.dispatchMouseEvent", type="mousePressed", **place, **button)
            self._ask("Input.dispatchMouseEvent", type="mouseReleased", **place, **button)

    def media(self, kind: str = "", **features: str) -> None:
        """Set the medium and features such as `prefers_color_scheme`."""
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._ask("Emulation.setEmulatedMedia", media=kind, features=pairs)

    def size(self, width: int, height: int) -> None:
        """Size of the window."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path: Path, whole: bool = False) -> Path:
        """Save what is seen, or the whole page."""
        shot = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def print(self, path: Path) -> Path:
        """Save the page as it is printed."""
        path.write_bytes(base64.b64decode(self._ask("Page.printToPDF", printBackground=True)["data"]))
        return path

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader finds."""
        nodes = self._ask("Accessibility.getFullAXTree")["nodes"]
        return [
            (node.get("role", {}).get("value", ""), node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answer = self._take()
            if answer is not None and answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
        raise AssertionError(f"no answer to {method}")

    def _take(self) -> dict[str, Any] | None:
        """The next message; None where none came for a while."""
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], 1.0)[0]:
                return None
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser ended"
            self._rest += piece
        data, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(data)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.consoleAPICalled":
            self.messages.append(f"{about['type']}: {[item.get('value') for item in about['args']]}")
        elif event == "Runtime.exceptionThrown":
            self.messages.append(about["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event == "Log.entryAdded":
            self.messages.append(about["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
