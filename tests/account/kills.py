"""Kills a command at its requests and runs it again.

By default at the first request of each operation. `TRAINC_EVERY_CALL=1` kills at every single request, which takes
minutes: the nightly workflow sets it. In memory, `tests/apply/faults.rs` does that in every run.
"""

import itertools
import os

EVERY_CALL = os.environ.get("TRAINC_EVERY_CALL") == "1"
# The code and the exit status for a saved plan that is out of date.
STALE, DIFFERENT = "T0612", 4


def points(calls):
    """Returns the requests at which to kill a command, as fault rules, given the calls of an undisturbed run."""
    if EVERY_CALL:
        # One past the end, which must not be reached; a killed run may make more requests than an undisturbed one.
        return [{"nth": k} for k in range(1, len(calls) + 2)]
    return [{"where": call, "nth": 1} for call in dict.fromkeys(calls)]


def killed_apply(run, phase, point, pidfile):
    """Kills an apply at `point` and applies again. Returns the errors after that, if any, and how it ended."""
    run.account.faults({"do": phase, "pidfile": str(pidfile), **point})
    process = run.start("apply", "--yes", pidfile=pidfile)
    out, _ = process.communicate(timeout=120)
    if process.returncode == 0 and run.account.admin("met") == [0]:
        return None, "not met"
    # The program may end before the kill arrives, when it no longer waits for the request.
    if process.returncode not in (-9, 0):
        return f"not killed: exit {process.returncode}: {out[-800:]}", "failed"
    run.account.faults()
    again, end = run.apply(), "the same command again"
    if again.code == DIFFERENT and STALE in again.out + again.err:
        run.save()
        again, end = run.apply(), "a fresh plan"
    if again.code != 0:
        return f"the second run: {again!r}", "failed"
    return "; ".join(run.faults_against_one()), end


def kill_applies(account, start, phase, folder):
    """Kills an apply of `start()` at each point. Returns the number of runs by how they ended."""
    run = start()
    account.admin("forget")
    assert run.apply().code == 0
    wrong, ends = {}, {}
    for point in points(account.calls()):
        found, end = killed_apply(start(), phase, point, folder / "pid")
        ends[end] = ends.get(end, 0) + 1
        if found:
            wrong[str(point)] = found
    assert not wrong, "\n".join(f"{point}: {what}" for point, what in itertools.islice(wrong.items(), 4))
    # Every point except the one past the end was reached.
    assert ends.pop("not met", 0) <= (1 if EVERY_CALL else 0), ends
    return ends
