"""Faults asked for by a test: which request meets one, and what happens to it.

A rule is a JSON object. `where` is a pattern of `service:Operation` (default `*`), `about` a text that the request's
body must hold; which of the requests that match:

    nth: 3      the third only            from: 3    the third and all after it
    times: 2    the first two of all, or from the `from` on
    attempts: 2   the first two attempts of every call (by the SDK's invocation id)

`do` says what happens, before the effect unless it ends in `-after`:

    throttle, 503, 500, expired, denied, error (with code, message, status), drop (the connection is cut),
    hang (nothing is answered for `seconds`, 30 without them), html (a page of something in between, with `status`),
    truncate (half of the answer, then the connection is cut), stall (half of the answer, then nothing),
    kill (SIGKILL to the process whose id stands in `pidfile`; nothing is answered), and of these
    500-after, drop-after, hang-after, html-after, kill-after; slow (waits `seconds` first). truncate and stall are always
after the effect.
"""

import fnmatch
import os
import signal
import time

from .wire import Answer, Refused, broken, denied, expired, throttled


class Dropped(Exception):
    """The connection is cut, nothing is answered."""


class Replaced(Exception):
    """Another answer than the service's."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer


class Rule:
    def __init__(self, spec):
        self.spec = spec
        self.where = spec.get("where", "*")
        self.seen = 0
        self.attempts = {}
        self.met = 0
        known = {"where", "about", "nth", "from", "times", "attempts", "do", "code", "message", "status", "pidfile", "seconds"}
        if unknown := set(spec) - known:
            raise ValueError(f"a fault has no {sorted(unknown)}")

    def bites(self, call):
        if not any(fnmatch.fnmatchcase(call.name, where) for where in self.where.split()):
            return False
        if self.spec.get("about", "").encode() not in call.body:
            return False
        self.seen += 1
        if "nth" in self.spec:
            bites = self.seen == self.spec["nth"]
        elif "from" in self.spec:
            past = self.seen - self.spec["from"]
            bites = 0 <= past < self.spec.get("times", past + 1)
        elif "times" in self.spec:
            bites = self.seen <= self.spec["times"]
        elif "attempts" in self.spec:
            key = call.invocation
            self.attempts[key] = self.attempts.get(key, 0) + 1
            bites = self.attempts[key] <= self.spec["attempts"]
        else:
            bites = True
        self.met += bites
        return bites

    @property
    def after(self):
        return self.spec["do"].endswith("-after") or self.cuts

    @property
    def cuts(self):
        return self.spec["do"] in ("truncate", "stall")

    def strike(self, call, account):
        """Raises what the caller meets."""
        do = self.spec["do"].removesuffix("-after")
        if do == "throttle":
            raise throttled(call)
        if do in ("503", "500"):
            raise broken(call, int(do))
        if do == "expired":
            raise expired(call)
        if do == "denied":
            raise denied(call, account)
        if do == "error":
            spec = self.spec
            raise Refused(spec["code"], spec.get("message", spec["code"]), spec.get("status", 400))
        if do == "slow":
            time.sleep(self.spec["seconds"])
            return
        if do == "kill":
            try:
                with open(self.spec["pidfile"], encoding="ascii") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
            except (OSError, ValueError):
                pass
            raise Dropped
        if do == "hang":
            time.sleep(self.spec.get("seconds", 30))
            raise Dropped
        if do == "html":
            page = b"<html><body><h1>Sign in</h1><p>to use this network</p></body></html>"
            raise Replaced(Answer(self.spec.get("status", 200), {"Content-Type": "text/html"}, page))
        if do == "drop":
            raise Dropped
        raise ValueError(f"no fault is called {do}")
