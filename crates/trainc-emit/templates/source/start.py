"""Started in place of the program: fetches secrets, measures the cluster, then starts the program and watches its steps.

Written by trainc. `trainc_start.json` in the same directory has the settings of the manifest, the variable TRAINC_PLAN the
planned figures. Without an enforced budget this process becomes the program; with one it is its parent, passes on its
output, its signals and its exit code, and sends it SIGTERM if it stays too slow or will exceed the budget.
"""

import ctypes
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESOURCES = "/opt/ml/input/config/resourceconfig.json"
FAILURE = "/opt/ml/output/failure"
# Exit code of a job that the probe or the budget ended.
ENDED = 8
# Seconds for the probe, with the start of its processes.
PROBE_SECONDS = 180
# Seconds that a program has to save a checkpoint after SIGTERM.
GRACE = 900
# Seconds in which the ranks find each other.
CONNECT = 600
# Seconds after which a program without a step is reported.
BLIND = 900


class Brake(object):
    """Decides whether a run must be stopped. `crates/trainc-apply/src/brake.rs` decides the same."""

    # Steps before the first measurement: compilation, caches, clocks.
    WARM_UP = 20
    # Blocks of steps in a window. All of them must be too slow, so that a pause in one of them counts for nothing.
    BLOCKS = 5
    # Blocks of which the fastest bounds the steps to come.
    RECENT = 20
    # Share of the fastest block's time that no step to come is expected to undercut.
    CERTAIN = 0.9

    def __init__(self, begin, steps, step_seconds, slowest, window, usd_per_hour, hard_usd):
        self.begin, self.steps, self.step_seconds, self.slowest = begin, steps, step_seconds, slowest
        self.usd_per_hour, self.hard_usd = usd_per_hour, hard_usd
        self.block = -(-window // self.BLOCKS)
        self.first = self.last = self.start = None
        self.blocks = []

    def observe(self, now, step):
        """Takes the time, in seconds, at which a step was logged. Returns the reason to stop, or None."""
        if self.last is not None and step <= self.last:
            if step < self.last:
                # The run resumed from a checkpoint.
                self.first, self.last, self.start, self.blocks = step, step, None, []
            return None
        self.last = step
        return (self.too_slow(step) if self.end_block(now, step) else None) or self.too_expensive(now, step)

    def end_block(self, now, step):
        """Adds the steps since the last block as the next one, if they are enough. Returns True if it did."""
        if self.first is None:
            self.first = step
            return False
        if self.start is None or step - self.first < self.WARM_UP:
            self.start = (now, step)
            return False
        since, count = now - self.start[0], step - self.start[1]
        if count < self.block:
            return False
        self.blocks = (self.blocks + [(since / count, count)])[-self.RECENT:]
        self.start = (now, step)
        return True

    def too_slow(self, step):
        if not self.slowest or not self.step_seconds or len(self.blocks) < self.BLOCKS:
            return None
        window = self.blocks[-self.BLOCKS:]
        if not all(seconds > self.step_seconds / self.slowest for seconds, _ in window):
            return None
        count = sum(count for _, count in window)
        seconds = sum(seconds * count for seconds, count in window) / count
        return {"reason": "slow", "at": step, "over": count, "share": self.step_seconds / seconds}

    def too_expensive(self, now, step):
        if not self.hard_usd or not self.usd_per_hour or not self.steps:
            return None
        least = 0.0
        if len(self.blocks) >= self.BLOCKS:
            least = self.CERTAIN * min(seconds for seconds, _ in self.blocks)
        seconds = now - self.begin + max(self.steps - step, 0) * least
        usd = seconds / 3600.0 * self.usd_per_hour
        if usd <= self.hard_usd:
            return None
        return {"reason": "budget", "at": step, "usd": usd, "hard_usd": self.hard_usd}


def dollars(usd, hard_usd):
    """Returns a cost and the budget that it exceeds, with as many digits as tell them apart."""
    for digits in range(2, 9):
        texts = ["${:,.{}f}".format(value, digits) for value in (usd, hard_usd)]
        if texts[0] != texts[1] and (round(hard_usd, digits) or not hard_usd):
            break
    return texts


def describe(why, host):
    """Returns the message of a stop."""
    if why["reason"] == "slow":
        text = "T0681 tokens/s were {:.0f} % of the plan over {:.0f} steps, up to step {:.0f}".format(
            100 * why["share"], why["over"], why["at"]
        )
    else:
        text = "T0681 the run would cost at least {}; the budget is {} (step {:.0f})".format(
            *(dollars(why["usd"], why["hard_usd"]) + [why["at"]])
        )
    return "{}; stopped by trainc's script on {}".format(text, host)


def say(kind, **members):
    line = {kind: members.pop("event")}
    line.update(members)
    # One write, so that lines of several processes do not mix.
    os.write(1, (json.dumps(line) + "\n").encode())


def report_failure(text):
    """Writes the text that becomes the FailureReason of the job."""
    if os.path.isdir(os.path.dirname(FAILURE)):
        with open(FAILURE, "w") as file:
            file.write(text)


class Place(object):
    """The rank of this process, or the container if the program is started once in each."""

    def __init__(self, processes):
        env = os.environ
        host = env.get("SM_CURRENT_HOST")
        hosts = json.loads(env.get("SM_HOSTS", "[]"))
        if not hosts and os.path.exists(RESOURCES):
            with open(RESOURCES) as file:
                found = json.load(file)
            host, hosts = found["current_host"], found["hosts"]
        hosts = sorted(hosts, key=lambda name: (len(name), name))
        self.host = host or socket.gethostname()
        mpi = "OMPI_COMM_WORLD_"
        if "RANK" in env and "WORLD_SIZE" in env:
            self.rank, self.world = int(env["RANK"]), int(env["WORLD_SIZE"])
            self.local, self.locals = int(env.get("LOCAL_RANK", 0)), int(env.get("LOCAL_WORLD_SIZE", processes))
        elif mpi + "RANK" in env:
            self.rank, self.world = int(env[mpi + "RANK"]), int(env[mpi + "SIZE"])
            self.local, self.locals = int(env[mpi + "LOCAL_RANK"]), int(env[mpi + "LOCAL_SIZE"])
        else:
            self.rank = hosts.index(self.host) if self.host in hosts else 0
            self.world, self.local, self.locals = max(len(hosts), 1), 0, None
        self.is_container = self.locals is None
        self.processes = processes
        self.master = env.get("MASTER_ADDR") or (hosts[0] if hosts else "127.0.0.1")
        # The program's own port stays free.
        self.port = int(env.get("MASTER_PORT", "29500")) + 211

    def environments(self):
        """Returns the variables of each process that measures in this container."""
        base = dict(os.environ, MASTER_ADDR=self.master, MASTER_PORT=str(self.port), TRAINC_HOST=self.host)
        base.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        if not self.is_container:
            ranks = [(self.rank, self.world, self.local, self.locals)]
        else:
            count = self.processes
            ranks = [(self.rank * count + local, self.world * count, local, count) for local in range(count)]
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return [dict(base, **dict(zip(names, map(str, numbers)))) for numbers in ranks]


def fetch(secrets):
    if secrets:
        import boto3

        for variable, arn in secrets.items():
            client = boto3.client("secretsmanager", region_name=arn.split(":")[3])
            os.environ[variable] = client.get_secret_value(SecretId=arn)["SecretString"]


def probe(place):
    """Measures the cluster in processes of their own, so that their memory is free before the program starts."""
    command = [sys.executable, os.path.join(HERE, "trainc_probe.py")]
    try:
        running = [subprocess.Popen(command, env=env) for env in place.environments()]
    except OSError as error:
        say("trainc_probe", event="error", host=place.host, why=str(error))
        return
    deadline = time.time() + PROBE_SECONDS
    codes = []
    for process in running:
        try:
            codes.append(process.wait(timeout=max(deadline - time.time(), 0.1)))
        except subprocess.TimeoutExpired:
            say("trainc_probe", event="error", host=place.host, why="not finished after %d s" % PROBE_SECONDS)
            process.kill()
            process.wait()
    if ENDED in codes:
        if place.local == 0:
            report_failure("T0680 the probe ended the job before training; its log has the figures")
        sys.exit(ENDED)


class Links(object):
    """Connections between the parents of all ranks: a stop reaches all of them, and they end together."""

    def __init__(self, place, on_stop):
        self.on_stop, self.lock, self.over = on_stop, threading.Lock(), threading.Event()
        self.peers, self.done, self.hub, self.link = {}, set(), None, None
        # A stop is sent to ranks that connect after it, too.
        self.stopped, self.others = None, place.world - 1
        # Set if this rank has seen a step, on the first rank if any has.
        self.seen = threading.Event()
        self.run = None
        if place.world <= 1:
            return
        if place.rank == 0:
            hub = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            hub.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                hub.bind(("", place.port + 1))
                hub.listen(1024)
            except OSError as error:
                # The launcher ends the other ranks when this one has ended.
                say("trainc_brake", event="error", host=place.host, why="port %d: %s" % (place.port + 1, error))
                hub.close()
                return
            self.hub, self.run = hub, self.serve
        else:
            self.run = lambda: self.follow(place.master, place.port + 1)

    def start(self):
        """Connects in a thread. A stop may come at once."""
        if self.run:
            thread = threading.Thread(target=self.run)
            thread.daemon = True
            thread.start()

    def serve(self):
        waiting = selectors.DefaultSelector()
        waiting.register(self.hub, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is self.hub:
                    peer, _ = self.hub.accept()
                    with self.lock:
                        self.peers[peer] = b""
                        stopped = self.stopped
                    if stopped:
                        try:
                            peer.sendall(stopped + b"\n")
                        except OSError:
                            pass
                    waiting.register(peer, selectors.EVENT_READ)
                    continue
                peer = key.fileobj
                try:
                    read = peer.recv(4096)
                except OSError:
                    read = b""
                lines = (self.peers[peer] + read).split(b"\n")
                self.peers[peer] = lines.pop()[:4096]
                if b"seen" in lines:
                    self.seen.set()
                if not read or b"done" in lines:
                    with self.lock:
                        self.done.add(peer)
                if not read:
                    waiting.unregister(peer)
                for line in lines:
                    if line.startswith(b"stop "):
                        self.on_stop(json.loads(line[5:].decode()))

    def follow(self, host, port):
        deadline = time.time() + CONNECT
        while self.link is None:
            try:
                self.link = socket.create_connection((host, port), timeout=10)
            except OSError:
                if time.time() > deadline:
                    return
                time.sleep(1)
        self.link.settimeout(None)
        if self.seen.is_set():
            self.tell(b"seen")
        rest = b""
        while True:
            try:
                read = self.link.recv(4096)
            except OSError:
                read = b""
            if not read:
                self.over.set()
                return
            lines = (rest + read).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line.startswith(b"stop "):
                    self.on_stop(json.loads(line[5:].decode()))
                elif line == b"end":
                    self.over.set()

    def tell(self, line):
        with self.lock:
            if line.startswith(b"stop "):
                self.stopped = line
            targets = list(self.peers) if self.hub else [self.link]
        for target in targets:
            try:
                target.sendall(line + b"\n")
            except (OSError, AttributeError):
                pass

    def see(self):
        """Takes the first step that this rank has seen. Often only one rank prints steps."""
        if not self.seen.is_set():
            self.seen.set()
            if self.hub is None:
                self.tell(b"seen")

    def end_together(self):
        """Returns when the programs of all ranks have ended."""
        deadline = time.time() + GRACE
        if self.hub is None and self.link is None:
            return
        if self.hub is None:
            self.tell(b"done")
            self.over.wait(GRACE)
            return
        while time.time() < deadline:
            with self.lock:
                if len(self.done) >= (self.others if self.stopped else len(self.peers)):
                    break
            time.sleep(0.1)
        self.tell(b"end")


def die_with_parent():
    # PR_SET_PDEATHSIG: a program never outlives the process that watches it.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Supervisor(object):
    """Runs the program as a child, with its output passed on and read."""

    def __init__(self, command, brake, patterns, place):
        self.brake, self.place = brake, place
        self.patterns = [re.compile(pattern) for pattern in patterns]
        self.lock, self.why = threading.Lock(), None
        self.links = Links(place, self.stop)
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent
        )
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.forward)
        self.links.start()

    def forward(self, number, _):
        # The launcher ends the other ranks when one has ended: they are saving already.
        if self.why is None:
            self.child.send_signal(number)

    def stop(self, why):
        with self.lock:
            if self.why is not None:
                return
            self.why = why
        # The first rank says it for all, unless this one cannot reach it.
        if self.links.link is None:
            say("trainc_brake", event="stop", host=self.place.host, text=describe(why, self.place.host), **why)
        self.links.tell(b"stop " + json.dumps(why).encode())
        if self.place.local == 0:
            report_failure(describe(why, self.place.host))
        timer = threading.Timer(GRACE, self.child.kill)
        timer.daemon = True
        timer.start()
        self.child.send_signal(signal.SIGTERM)

    def read(self, text):
        for pattern in self.patterns:
            found = pattern.search(text)
            if found:
                try:
                    step = float(found.group(1))
                except (IndexError, TypeError, ValueError):
                    continue
                self.links.see()
                with self.lock:
                    why = self.brake.observe(time.time(), step)
                if why is not None:
                    self.stop(why)
                return

    def pump(self, pipe, out):
        rest = b""
        while True:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                return
            at = 0
            while at < len(data):
                at += os.write(out, data[at:])
            # Progress bars end their lines with a carriage return.
            lines = re.split(b"[\r\n]", rest + data)
            rest = lines.pop()[-65536:]
            for line in lines:
                self.read(line.decode("utf-8", "replace"))

    def report_no_step(self):
        if not self.links.seen.is_set():
            why = "no step in the program's output for %d s: the limits are not checked until there is one" % BLIND
            say("trainc_brake", event="blind", host=self.place.host, why=why)

    def run(self):
        if self.place.rank == 0:
            timer = threading.Timer(BLIND, self.report_no_step)
            timer.daemon = True
            timer.start()
        threads = [
            threading.Thread(target=self.pump, args=(self.child.stdout, 1)),
            threading.Thread(target=self.pump, args=(self.child.stderr, 2)),
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        code = self.child.wait()
        # A process that the program left behind may keep the pipes open.
        for thread in threads:
            thread.join(5)
        if self.why is not None:
            self.links.end_together()
            return ENDED
        if code < 0:
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code


def brake_of(settings, plan):
    """Returns the brake of an enforced budget, or why there is none."""
    if plan is None:
        return None, "TRAINC_PLAN is not set: the planned figures are unknown"
    return (
        Brake(
            time.time(),
            settings["steps"],
            plan.get("step_seconds"),
            settings["slowest"],
            settings["window"],
            plan.get("usd_per_hour"),
            settings["hard_usd"],
        ),
        None,
    )


def figures_of_type():
    """Returns the planned figures of the instance type that runs, if it is not the first of the preferred ones."""
    types = json.loads(os.environ.get("TRAINC_PLAN_TYPES", "{}"))
    if not types or not os.path.exists(RESOURCES):
        return {}
    with open(RESOURCES) as file:
        return types.get(json.load(file).get("current_instance_type"), {})


def limits_off(brake):
    """Returns why a limit of the brake cannot be checked, by the name of the setting."""
    off = {}
    if brake.hard_usd and not brake.usd_per_hour:
        off["hard_usd"] = "the price of the instances is unknown"
    elif brake.hard_usd and not brake.steps:
        off["hard_usd"] = "the number of steps is unknown"
    if brake.slowest and not brake.step_seconds:
        off["slowest"] = "the plan predicts no speed"
    return off


def main():
    with open(os.path.join(HERE, "trainc_start.json")) as file:
        settings = json.load(file)
    fetch(settings["secrets"])
    place = Place(settings["processes"])
    if settings["probe"]:
        probe(place)
    command = settings["command"]
    if not command:
        entry = os.path.join(HERE, settings["entry"])
        if entry.endswith(".py"):
            command = [sys.executable, "-u", entry]
        else:
            os.chmod(entry, 0o755)
            command = [entry]
    command = command + sys.argv[1:]
    if settings["brake"]:
        text = os.environ.get("TRAINC_PLAN")
        plan = dict(json.loads(text), **figures_of_type()) if text else None
        brake, why = brake_of(settings["brake"], plan)
        if brake is not None:
            if place.rank == 0:
                say("trainc_brake", event="on", off=limits_off(brake), **settings["brake"])
            sys.exit(Supervisor(command, brake, settings["brake"]["patterns"], place).run())
        say("trainc_brake", event="off", host=place.host, why=why)
    sys.stdout.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
