"""Applies that are killed at every single request: one run for each k, and the same command once more."""

import concurrent.futures
import threading

from hold import held

WORKERS = 2
# the words of a saved plan that no longer holds, and its exit code
STALE, DIFFERENT = "T0612", 4


def killed(run, phase, k, pidfile):
    """One apply that is killed at its k-th request, and the same one after it: what is wrong then, and how it ended."""
    run.account.faults({"do": phase, "nth": k, "pidfile": str(pidfile)})
    process = run.start("apply", "--yes", pidfile=pidfile)
    out, _ = process.communicate(timeout=120)
    if process.returncode == 0 and run.account.admin("met") == [0]:
        return None, "past the end"
    # A request that the program no longer waits for may end it before the kill arrives: that is an end like any other.
    if process.returncode not in (-9, 0):
        return f"not killed: exit {process.returncode}: {out[-800:]}", "failed"
    run.account.faults()
    again, end = run.apply(), "the same command again"
    if again.code == DIFFERENT and STALE in again.out + again.err:
        # The saved plan says that the account moved: it is made once more, from what is there now.
        run.save()
        again, end = run.apply(), "a fresh plan"
    if again.code != 0:
        return f"the run after it: {again!r}", "failed"
    return "; ".join(run.faults_against_one()), end


def at_every_request(start, phase, folder):
    """Kills an apply of `start(account, folder)` at each request until one comes to its end. How many ended how."""
    numbers, lock = iter(range(1, 500)), threading.Lock()
    past, wrong, ends = threading.Event(), {}, {}

    def work(index):
        own = folder / f"worker-{index}"
        own.mkdir()
        with held() as account:
            while not past.is_set():
                with lock:
                    k = next(numbers)
                found, end = killed(start(account, own), phase, k, own / "pid")
                with lock:
                    ends[end] = ends.get(end, 0) + 1
                    if found:
                        wrong[k] = found
                    if end == "past the end" or len(wrong) > 3:
                        past.set()

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for future in [pool.submit(work, index) for index in range(WORKERS)]:
            future.result()
    assert not wrong, "\n".join(f"k={k}: {what}" for k, what in sorted(wrong.items()))
    assert ends.pop("past the end") >= 1, ends
    return ends
