"""Chromium without a window or a network, driven through the DevTools protocol over two pipes."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SAYS = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
PATIENCE = 120


def pipe():
    """The two ends, with descriptors above those that Chromium uses."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high


class Browser:
    def __init__(self, folder):
        commands, self.to = pipe()
        self.answers, answers = pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", CHROMIUM, "--headless",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"],
            pass_fds=(commands, answers), env={**os.environ, "HOME": str(folder)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.rest, self.number, self.tabs = b"", 0, {}

    def close(self):
        os.close(self.to)
        self.process.terminate()
        self.process.wait()
        os.close(self.answers)

    def receive(self, deadline):
        """Return the next message; an event is recorded for its tab."""
        while b"\0" not in self.rest:
            assert select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0], "no answer"
            read = os.read(self.answers, 1 << 20)
            assert read, "Chromium has ended"
            self.rest += read
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message and message.get("sessionId") in self.tabs:
            self.tabs[message["sessionId"]].note(message["method"], message["params"])
        return message

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while (answer := self.receive(deadline)).get("id") != message["id"]:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, path, **how):
        """Return a tab that shows the file."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        tab = Tab(self, target, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        tab.show(path, **how)
        return tab


class Tab:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session
        browser.tabs[session] = self
        self.said, self.requests, self.loaded = [], [], False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        del self.browser.tabs[self.session]
        self.browser.call("Target.closeTarget", targetId=self.target)

    def note(self, event, params):
        if event in SAYS:
            self.said.append(params)
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Page.loadEventFired":
            self.loaded = True

    def show(self, path, scripts=True):
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.resize(1280)
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE
        while not self.loaded:
            self.browser.receive(deadline)

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition):
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < deadline, condition
            time.sleep(0.02)

    def all(self, selector, what="e.textContent"):
        """Evaluate an expression for every selected element."""
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => {what})")

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def paint(self, scheme="light", medium="screen"):
        self.call("Emulation.setEmulatedMedia", media=medium,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def box(self, selector, index=0):
        """Scroll to the element; return its left, top, width and height."""
        return self.evaluate(f"""(e => {{
            e.scrollIntoView({{ block: "center", behavior: "instant" }});
            const b = e.getBoundingClientRect();
            return [b.left, b.top, b.width, b.height];
        }})(document.querySelectorAll({json.dumps(selector)})[{index}])""")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def point(self, selector, index=0, at=(0.5, 0.5)):
        """Move the pointer to a relative position in an element."""
        left, top, width, height = self.box(selector, index)
        self.mouse("mouseMoved", left + at[0] * width, top + at[1] * height)

    def drag(self, selector, begin, end, index=0):
        """Drag the pointer between two relative positions across an element."""
        left, top, width, height = self.box(selector, index)
        y, held = top + height / 2, {"button": "left", "buttons": 1, "clickCount": 1}
        self.mouse("mousePressed", left + begin * width, y, **held)
        for part in (begin + (end - begin) / 2, end):
            self.mouse("mouseMoved", left + part * width, y, **held)
        self.mouse("mouseReleased", left + end * width, y, button="left", clickCount=1)

    def click(self, selector, index=0):
        left, top, width, height = self.box(selector, index)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, left + width / 2, top + height / 2, button="left", clickCount=1)

    def picture(self, path):
        """Take a screenshot of the whole page."""
        height = self.evaluate("document.documentElement.scrollHeight")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": self.evaluate("innerWidth"), "height": height, "scale": 1})
        path.write_bytes(base64.b64decode(shot["data"]))
