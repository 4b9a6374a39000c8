"""Faults that a test requests: which requests they affect, and their effects.

A rule is a JSON object. `where` is a pattern of `service:Operation` (default `*`), `about` a text that the request's
body must contain. These members select among the matching requests:

    nth: 3      only the third            from: 3    the third and all later ones
    times: 2    the first two, counted from `from` if it is set
    attempts: 2   the first two attempts of every call (by the SDK's invocation ID)

`do` is the fault, which happens before the effect of the request unless its name ends in `-after`:

    throttle, 503, 500, expired, denied, error (with code, message, status), drop (closes the connection),
    hang (no answer for `seconds`, default 30), html (an HTML page as a proxy sends, with `status`),
    truncate (half of the answer, then closes the connection), stall (half of the answer, then nothing),
    kill (sends SIGKILL to the process whose ID is in `pidfile`, without an answer), and the variants
    500-after, drop-after, hang-after, html-after, kill-after; slow (waits `seconds` first). truncate and stall are always
after the effect.
"""

import fnmatch
import os
import signal
import time

from .wire import Answer, Refused, broken, denied, expired, throttled


class Dropped(Exception):
    """Raised to close the connection without an answer."""


class Replaced(Exception):
    """Raised to send another answer than the service's."""

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
        """Raises the error for the caller, or waits."""
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
