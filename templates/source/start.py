"""Started in place of the program: fetches secrets, measures the cluster, then starts the program and watches its steps.

Written by trainc. `trainc_start.json` in the same directory has the settings of the manifest, the variable TRAINC_PLAN the
planned figures. Without an enforced budget this process becomes the program; with one it is its parent, passes on its
output, its signals and its exit code, and sends it SIGTERM if it becomes too slow or will exceed the budget.

The processes of a job tell each other of a stop over connections that both sides authenticate with a key of the job. Without
the key nothing listens, and each of them stops its program by time x price alone.
"""

import ctypes
import fcntl
import hashlib
import hmac
import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

# A clock that nobody can set.
BEGIN = time.monotonic()
HERE = os.path.dirname(os.path.abspath(__file__))
RESOURCES = "/opt/ml/input/config/resourceconfig.json"
HYPERPARAMETERS = "/opt/ml/input/config/hyperparameters.json"
FAILURE = "/opt/ml/output/failure"
# Exit code of a job that the probe or the budget ended.
ENDED = 8
# Seconds for the probe, with the start of its processes.
PROBE_SECONDS = 180
# Seconds that a program has to save a checkpoint after SIGTERM.
GRACE = 900
# Seconds in which the ranks find each other.
CONNECT = 600
# Seconds that the first rank waits, after a stop, for ranks that have not connected.
JOIN = 60
# Seconds that a connection has to prove that it knows the key, and the largest number of connections that have not.
HANDSHAKE = 5
PENDING = 64
# Seconds before the next connection is accepted, after one that did not prove it.
REJECTED = 0.002
# Bytes of a line.
LONGEST = 4096
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

    def __init__(self, begin, steps, step_seconds, measured, slowest, window, usd_per_hour, hard_usd):
        self.begin, self.steps, self.step_seconds, self.slowest = begin, steps, step_seconds, slowest
        self.usd_per_hour, self.hard_usd = usd_per_hour, hard_usd
        self.block = -(-window // self.BLOCKS)
        # A plan whose interval does not come from measured errors of its setting may be wrong: the run's own first window
        # is the reference, and the plan is only compared.
        self.reference = step_seconds if measured else None
        self.than = "plan" if measured else "start"
        self.compared = bool(measured)
        self.first = self.last = self.start = None
        self.blocks = []

    def observe(self, now, step):
        """Takes the time, in seconds, at which a step was logged. Returns what was found, or None."""
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
        if not self.slowest or len(self.blocks) < self.BLOCKS:
            return None
        window = self.blocks[-self.BLOCKS:]
        if self.reference is None:
            # The median: a pause in a block counts for nothing.
            self.reference = sorted(seconds for seconds, _ in window)[self.BLOCKS // 2]
        fastest = min(seconds for seconds, _ in window)
        count = sum(count for _, count in window)
        seconds = sum(seconds * count for seconds, count in window) / count
        found = {"reason": "slow", "at": step, "over": count, "than": self.than}
        if fastest > self.reference / self.slowest:
            return dict(found, share=self.reference / seconds)
        if not self.compared and self.step_seconds and fastest > self.step_seconds / self.slowest:
            # Once: it is no reason to stop.
            self.compared = True
            return dict(found, reason="behind", than="plan", share=self.step_seconds / seconds)
        return None

    def too_expensive(self, now, step):
        """Returns the reason if the run would exceed the budget even with all steps to come faster than the fastest."""
        least = 0.0
        if self.steps and len(self.blocks) >= self.BLOCKS:
            least = max(self.steps - step, 0) * self.CERTAIN * min(seconds for seconds, _ in self.blocks)
        return self.too_long(now + least)

    def too_long(self, now):
        """Returns the reason if time x price exceeds the hard budget. Needs no step."""
        if not self.hard_usd or not self.usd_per_hour:
            return None
        usd = (now - self.begin) / 3600.0 * self.usd_per_hour
        if usd <= self.hard_usd:
            return None
        return {"reason": "budget", "at": self.last, "usd": usd, "hard_usd": self.hard_usd}

    def seconds_left(self, now):
        """Returns the seconds until time x price reaches the hard budget, or None without one."""
        if not self.hard_usd or not self.usd_per_hour:
            return None
        return self.begin + self.hard_usd / self.usd_per_hour * 3600.0 - now


def dollars(usd, hard_usd):
    """Returns a cost and the budget that it exceeds, with as many digits as tell them apart."""
    for digits in range(2, 9):
        texts = ["${:,.{}f}".format(value, digits) for value in (usd, hard_usd)]
        if texts[0] != texts[1] and (round(hard_usd, digits) or not hard_usd):
            break
    return texts


THAN = {"plan": "the plan", "start": "the run's first steps"}


def describe(why):
    """Returns the message of a finding."""
    if why["reason"] == "budget":
        at = "before its first step" if why["at"] is None else "step {:.0f}".format(why["at"])
        usd = dollars(why["usd"], why["hard_usd"])
        return "the run would cost at least {}; the budget is {} ({})".format(usd[0], usd[1], at)
    return "tokens/s were {:.0f} % of {} over {:.0f} steps, up to step {:.0f}".format(
        100 * why["share"], THAN[why["than"]], why["over"], why["at"]
    )


def describe_stop(why, host):
    """Returns the message of a stop, which becomes the FailureReason of the job."""
    return "T0681 {}; stopped by trainc's script on {}".format(describe(why), host)


def checked_stop(why):
    """Returns the reason of a stop from another rank; raises ValueError unless it is one, whole and within bounds."""
    numbers = {"slow": ("at", "over", "share"), "budget": ("usd", "hard_usd")}
    if not isinstance(why, dict) or not isinstance(why.get("reason"), str) or why["reason"] not in numbers:
        raise ValueError("no reason")
    # Infinity and NaN are not below the bound.
    is_number = lambda value: type(value) in (int, float) and 0 <= value < 1e15
    names = numbers[why["reason"]]
    other = {"slow": "than", "budget": "at"}[why["reason"]]
    if set(why) != set(names) | {"reason", other} or not all(is_number(why[name]) for name in names):
        raise ValueError("other members")
    value = why[other]
    if not (isinstance(value, str) and value in THAN if other == "than" else value is None or is_number(value)):
        raise ValueError(other)
    return why


class Output(object):
    """Standard output: that of the program, passed on in the pieces in which it comes, and lines of this script."""

    def __init__(self):
        self.lock, self.is_in_line = threading.Lock(), False

    def pass_on(self, data):
        with self.lock:
            write_all(1, data)
            self.is_in_line = not data.endswith(b"\n")

    def line(self, text):
        with self.lock:
            # One write, so that lines of several processes do not mix.
            os.write(1, (b"\n" if self.is_in_line else b"") + text.encode() + b"\n")
            self.is_in_line = False


OUTPUT = Output()


def write_all(out, data):
    at = 0
    while at < len(data):
        at += os.write(out, data[at:])


def say(kind, **members):
    line = {kind: members.pop("event")}
    line.update(members)
    OUTPUT.line(json.dumps(line))


def report_failure(text):
    """Writes the text that becomes the FailureReason of the job."""
    try:
        if os.path.isdir(os.path.dirname(FAILURE)):
            with open(FAILURE, "w") as file:
                file.write(text)
    except OSError as error:
        say("trainc_start", event="error", why=str(error))


class Place(object):
    """The rank of this process, or the container if the program is started once in each."""

    def __init__(self, processes):
        env = os.environ
        host = env.get("SM_CURRENT_HOST")
        hosts = json.loads(env.get("SM_HOSTS", "[]"))
        self.interface = env.get("SM_NETWORK_INTERFACE_NAME")
        if os.path.exists(RESOURCES):
            with open(RESOURCES) as file:
                found = json.load(file)
            self.interface = found.get("network_interface_name") or self.interface
            if not hosts:
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
        port = int(env.get("MASTER_PORT", "29500"))
        self.port = port + 211 if port < 65000 else port - 213

    def address(self):
        """Returns the address at which the first rank listens: of the job's interface, or of this host alone."""
        if self.locals == self.world:
            return "127.0.0.1"
        if self.interface:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                # SIOCGIFADDR, netdevice(7): a name of 16 bytes, then the address.
                row = fcntl.ioctl(one.fileno(), 0x8915, struct.pack("256s", self.interface.encode()[:15]))
            return socket.inet_ntoa(row[20:24])
        return socket.gethostbyname(self.master)

    def first_address(self):
        """Returns the address at which other ranks reach the first one."""
        return "127.0.0.1" if self.locals == self.world else self.master

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
    deadline = time.monotonic() + PROBE_SECONDS
    codes = []
    for process in running:
        try:
            codes.append(process.wait(timeout=max(deadline - time.monotonic(), 0.1)))
        except subprocess.TimeoutExpired:
            say("trainc_probe", event="error", host=place.host, why="not finished after %d s" % PROBE_SECONDS)
            process.kill()
            process.wait()
    if ENDED in codes:
        if place.local == 0:
            report_failure("T0680 the probe ended the job before training; its log has the figures")
        sys.exit(ENDED)


def read_key(path):
    """Returns the key of the job's hosts, or None and why there is none. It is in a channel, or next to the archive."""
    try:
        if path is None:
            with open(HYPERPARAMETERS) as file:
                found = json.load(file)
            import boto3
            from botocore.config import Config

            archive = json.loads(found["sagemaker_submit_directory"])
            region = json.loads(found["sagemaker_region"])
            bucket, _, name = archive[len("s3://"):].partition("/")
            limits = Config(connect_timeout=5, read_timeout=5, retries={"max_attempts": 2})
            client = boto3.client("s3", region_name=region, config=limits)
            name = name.rpartition("/")[0] + "/rendezvous.key"
            text = client.get_object(Bucket=bucket, Key=name)["Body"].read(1024).decode()
        else:
            with open(path) as file:
                text = file.read(1024)
        if not re.match("[0-9a-f]{64}\n?$", text):
            return None, "the key of its hosts is not 64 hexadecimal digits"
        return bytes.fromhex(text.strip()), None
    except Exception as error:
        # The job was not started by `trainc apply`, which writes the key, or may not read it.
        return None, "its hosts have no key (%s)" % type(error).__name__


def mac(key, *parts):
    """Returns the HMAC-SHA256 of these parts. Their lengths keep other parts with the same bytes apart."""
    out = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        out.update(struct.pack("<Q", len(part)) + part)
    return out.digest()


def hello_of(rank):
    """Returns the 16 bytes that begin a connection of a rank."""
    return b"trainc brake" + struct.pack("<I", rank)


class Channel(object):
    """A connection between two ranks that know the key. A line is the HMAC of its number and text, then the text."""

    def __init__(self, sock, rank, out, into):
        self.sock, self.rank, self.out, self.into = sock, rank, out, into
        self.sent, self.received, self.rest = 0, 0, b""
        self.lock = threading.Lock()

    def send(self, message):
        """Sends a message. Returns False if the connection is lost."""
        text = json.dumps(message).encode()
        try:
            with self.lock:
                line = mac(self.out, struct.pack("<Q", self.sent), text).hex().encode() + text + b"\n"
                self.sent += 1
                self.sock.sendall(line)
            return True
        except OSError:
            return False

    def receive(self):
        """Returns the messages that have come; raises ValueError or OSError if one is invalid or none can come."""
        read = self.sock.recv(LONGEST)
        if not read:
            raise ValueError("closed")
        lines = (self.rest + read).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > LONGEST:
            raise ValueError("too long")
        return [self.message(line) for line in lines]

    def message(self, line):
        text = line[64:]
        if not hmac.compare_digest(mac(self.into, struct.pack("<Q", self.received), text).hex().encode(), line[:64]):
            raise ValueError("another key, or repeated")
        self.received += 1
        try:
            kind, why = json.loads(text.decode())
        except (TypeError, RecursionError):
            raise ValueError("no message")
        if kind == "stop":
            return kind, checked_stop(why)
        if kind not in ("seen", "done", "end") or why is not None:
            raise ValueError("no message")
        return kind, None

    @classmethod
    def connect(cls, address, rank, world, key):
        """Connects a rank to the first one; raises ValueError or OSError."""
        until = time.monotonic() + HANDSHAKE
        sock = socket.create_connection(address, timeout=HANDSHAKE)
        try:
            parts = [hello_of(rank), b"%d" % world, os.urandom(32)]
            sock.sendall(parts[0] + parts[2])
            parts.append(receive_exactly(sock, 32, until))
            sock.sendall(mac(key, b"client", *parts))
            if not hmac.compare_digest(mac(key, b"server", *parts), receive_exactly(sock, 32, until)):
                raise ValueError("another key")
        except Exception:
            sock.close()
            raise
        sock.settimeout(None)
        return cls(sock, 0, mac(key, b"to server", *parts), mac(key, b"to client", *parts))


def receive_exactly(sock, count, until):
    """Returns this many bytes. The time limit also holds for a peer that sends byte by byte."""
    out = b""
    while len(out) < count:
        sock.settimeout(max(until - time.monotonic(), 0.001))
        read = sock.recv(count - len(out))
        if not read:
            raise ValueError("closed")
        out += read
    return out


class Guest(object):
    """A connection that has not proved yet that it knows the key."""

    def __init__(self, sock, world, key):
        self.sock, self.world, self.key = sock, world, key
        self.until, self.data, self.parts = time.monotonic() + HANDSHAKE, b"", None

    def read(self):
        """Returns a channel once the key is proved, None before; raises ValueError or OSError if it cannot be."""
        need = 48 if self.parts is None else 32
        read = self.sock.recv(need - len(self.data))
        if not read:
            raise ValueError("closed")
        self.data += read
        if len(self.data) < need:
            return None
        data, self.data = self.data, b""
        if self.parts is None:
            rank = struct.unpack("<I", data[12:16])[0]
            if data[:16] != hello_of(rank) or not 0 < rank < self.world:
                raise ValueError("no rank")
            self.parts = [data[:16], b"%d" % self.world, data[16:], os.urandom(32)]
            self.sock.sendall(self.parts[3])
            return None
        if not hmac.compare_digest(mac(self.key, b"client", *self.parts), data):
            raise ValueError("another key")
        self.sock.sendall(mac(self.key, b"server", *self.parts))
        rank = struct.unpack("<I", self.parts[0][12:])[0]
        directions = [mac(self.key, direction, *self.parts) for direction in (b"to client", b"to server")]
        return Channel(self.sock, rank, *directions)


class Links(object):
    """Connections between the parents of all ranks: a stop reaches all of them, and they end together."""

    def __init__(self, place, key, why_alone):
        self.place, self.key, self.why_alone = place, key, why_alone
        self.lock, self.over = threading.Lock(), threading.Event()
        # The other ranks by number, on the first one; the first one, on the others.
        self.peers, self.joined, self.done, self.hub, self.link = {}, set(), set(), None, None
        # A stop is sent to ranks that connect after it, too.
        self.stopped = None
        # Set if this rank has seen a step, on the first rank if any has.
        self.seen = threading.Event()
        self.on_stop = None
        if key is not None and place.rank == 0:
            self.listen()

    def listen(self):
        hub = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        hub.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            hub.bind((self.place.address(), self.place.port + 1))
            hub.listen(1024)
            self.hub = hub
        except OSError as error:
            hub.close()
            self.why_alone = "port %d: %s" % (self.place.port + 1, error)

    def start(self, on_stop):
        """Connects in a thread. A stop may come at once."""
        self.on_stop = on_stop
        run = self.serve if self.hub else self.follow if self.key is not None and self.place.rank > 0 else None
        if run:
            thread = threading.Thread(target=run)
            thread.daemon = True
            thread.start()

    def is_linked(self):
        """Returns True if a stop of this rank reaches the others."""
        return self.place.world <= 1 or self.hub is not None or self.link is not None

    def serve(self):
        waiting = selectors.DefaultSelector()
        waiting.register(self.hub, selectors.EVENT_READ, None)
        guests = []

        def close(one):
            waiting.unregister(one.sock)
            one.sock.close()

        while True:
            for key, _ in waiting.select(1 if guests else None):
                one = key.data
                try:
                    if one is None:
                        guest = self.accept()
                        waiting.register(guest.sock, selectors.EVENT_READ, guest)
                        guests.append(guest)
                    elif isinstance(one, Channel):
                        for kind, why in one.receive():
                            self.take(one, kind, why)
                    elif one in guests:
                        channel = one.read()
                        if channel is not None:
                            guests.remove(one)
                            waiting.modify(one.sock, selectors.EVENT_READ, channel)
                            self.join(channel, close)
                except (OSError, ValueError):
                    if isinstance(one, Channel):
                        if one.sock.fileno() >= 0:
                            close(one)
                        self.leave(one)
                    elif one in guests:
                        guests.remove(one)
                        close(one)
                    if not isinstance(one, Channel):
                        # A stranger gets no more of this process's time than this, whatever it sends.
                        time.sleep(REJECTED)
            late = [guest for guest in guests if guest.until < time.monotonic()]
            # Honest ranks need milliseconds, so the oldest is the least likely to be one.
            for guest in late or guests[:max(len(guests) - PENDING, 0)]:
                guests.remove(guest)
                close(guest)
                time.sleep(REJECTED)

    def accept(self):
        sock, _ = self.hub.accept()
        sock.settimeout(HANDSHAKE)
        return Guest(sock, self.place.world, self.key)

    def join(self, channel, close):
        """Takes a rank. Its former connection, if it has one, is replaced."""
        with self.lock:
            former = self.peers.get(channel.rank)
            self.peers[channel.rank] = channel
            self.joined.add(channel.rank)
            self.done.discard(channel.rank)
            stopped = self.stopped
        if former is not None:
            close(former)
        if stopped is not None:
            channel.send(["stop", stopped])

    def leave(self, channel):
        with self.lock:
            if self.peers.get(channel.rank) is channel:
                del self.peers[channel.rank]
                self.done.add(channel.rank)

    def take(self, channel, kind, why):
        """Acts on a message that a rank sent to the first one."""
        if kind == "stop":
            self.on_stop(why)
        elif kind == "seen":
            self.seen.set()
        elif kind == "done":
            with self.lock:
                self.done.add(channel.rank)
        else:
            raise ValueError("only the first rank says so")

    def follow(self):
        deadline = time.monotonic() + CONNECT
        address = (self.place.first_address(), self.place.port + 1)
        link = None
        while link is None:
            try:
                link = Channel.connect(address, self.place.rank, self.place.world, self.key)
            except (OSError, ValueError):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.5)
        with self.lock:
            self.link, stopped = link, self.stopped
        if self.seen.is_set():
            link.send(["seen", None])
        if stopped is not None:
            link.send(["stop", stopped])
        try:
            while True:
                for kind, why in link.receive():
                    if kind == "stop":
                        self.on_stop(why)
                    elif kind == "end":
                        self.over.set()
                    else:
                        raise ValueError("only other ranks say so")
        except (OSError, ValueError):
            with self.lock:
                self.link = None
            link.sock.close()
            self.over.set()

    def tell(self, kind, why=None):
        """Sends a message to the other ranks. Returns True if any was reached."""
        with self.lock:
            if kind == "stop":
                self.stopped = why
            targets = list(self.peers.values()) + ([self.link] if self.link else [])
        return any([target.send([kind, why]) for target in targets])

    def see(self):
        """Takes the first step that this rank has seen. Often only one rank prints steps."""
        if not self.seen.is_set():
            self.seen.set()
            if self.hub is None:
                self.tell("seen")

    def end_together(self):
        """Returns when the programs of all ranks that this one is linked with have ended: the launcher ends the others
        when one has ended, and they may still be saving."""
        begin = time.monotonic()
        if self.hub is None:
            if self.tell("done"):
                self.over.wait(GRACE)
            return
        others = self.place.world - 1
        while time.monotonic() < begin + GRACE:
            with self.lock:
                expected = others if time.monotonic() < begin + JOIN else len(self.joined)
                if len(self.done) >= expected:
                    break
            time.sleep(0.1)
        self.tell("end")


class Host(object):
    """The ranks of a host, which end together where no connection links them: each holds a shared lock until its program
    has ended."""

    def __init__(self):
        try:
            # The launcher started all of them.
            path = os.path.join(tempfile.gettempdir(), "trainc-brake-%d.lock" % os.getppid())
            self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            self.file = None

    def end_together(self):
        if self.file is None:
            return
        fcntl.flock(self.file, fcntl.LOCK_UN)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(self.file, fcntl.LOCK_UN)
                return
            except OSError:
                time.sleep(0.05)


def die_with_parent():
    # PR_SET_PDEATHSIG: a program never outlives the process that watches it.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Supervisor(object):
    """Runs the program as a child, with its output passed on and read."""

    def __init__(self, command, brake, patterns, place, links):
        self.brake, self.place, self.links, self.host = brake, place, links, Host()
        self.patterns = [re.compile(pattern) for pattern in patterns]
        self.lock, self.why, self.ended, self.reported = threading.Lock(), None, False, set()
        self.said, self.child, early = threading.Event(), None, []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: self.signal(number) if self.child else early.append(number))
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent
        )
        for number in early:
            self.signal(number)
        links.start(self.stop)

    def signal(self, number):
        """Sends a signal to the program. Those that this process receives reach it always, whatever the peers say."""
        try:
            self.child.send_signal(number)
        except OSError:
            # It has just ended.
            pass

    def stop(self, why):
        with self.lock:
            # A program that has ended is not stopped.
            if self.why is not None or self.ended:
                return
            self.why = why
        try:
            self.stop_and_say(why)
        finally:
            self.said.set()

    def stop_and_say(self, why):
        timer = threading.Timer(GRACE, self.signal, [signal.SIGKILL])
        timer.daemon = True
        timer.start()
        self.signal(signal.SIGTERM)
        reached = self.links.tell("stop", why)
        # The first rank says it for all, unless this one cannot reach it; then one of each host says it.
        if self.place.rank == 0 or (not reached and self.place.local == 0):
            text = describe_stop(why, self.place.host)
            say("trainc_brake", event="stop", host=self.place.host, text=text, **why)
        if self.place.local == 0:
            report_failure(describe_stop(why, self.place.host))

    def report(self, found):
        """Reports, once, what is no reason to stop the program, or none without the other ranks."""
        if found["reason"] in self.reported:
            return
        self.reported.add(found["reason"])
        why = ""
        if found["reason"] != "behind":
            why = "; not stopped: " + (self.links.why_alone or "this rank does not reach the others")
        say("trainc_brake", event="report", host=self.place.host, text=describe(found) + why, **found)

    def read(self, text):
        for pattern in self.patterns:
            found = pattern.search(text)
            if found:
                try:
                    step = float(found.group(1))
                except (IndexError, TypeError, ValueError):
                    continue
                self.links.see()
                now = time.monotonic()
                with self.lock:
                    found = self.brake.observe(now, step)
                if found is None:
                    return
                # Without the others, only the clock stops the program: all of them have one.
                if found["reason"] != "behind" and self.links.is_linked():
                    self.stop(found)
                else:
                    self.report(found)
                return

    def watch_clock(self):
        """Stops the program when time x price exceeds the hard budget, whatever it prints."""
        while True:
            now = time.monotonic()
            found = self.brake.too_long(now)
            if found is not None:
                self.stop(found)
                return
            left = self.brake.seconds_left(now)
            if left is None:
                return
            time.sleep(min(max(left, 0.01), 3600))

    def pump(self, pipe, pass_on):
        rest = b""
        while True:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                return
            pass_on(data)
            # Progress bars end their lines with a carriage return.
            lines = re.split(b"[\r\n]", rest + data)
            rest = lines.pop()[-65536:]
            for line in lines:
                self.read(line.decode("utf-8", "replace"))

    def report_no_step(self):
        if not self.links.seen.is_set():
            why = "no step in the program's output for %d s: until there is one, only time x price is checked" % BLIND
            say("trainc_brake", event="blind", host=self.place.host, why=why)

    def run(self):
        if self.place.rank == 0:
            timer = threading.Timer(BLIND, self.report_no_step)
            timer.daemon = True
            timer.start()
        threads = [
            threading.Thread(target=self.pump, args=(self.child.stdout, OUTPUT.pass_on)),
            threading.Thread(target=self.pump, args=(self.child.stderr, lambda data: write_all(2, data))),
            threading.Thread(target=self.watch_clock),
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        code = self.child.wait()
        with self.lock:
            self.ended = True
        # A process that the program left behind may keep the pipes open.
        for thread in threads[:2]:
            thread.join(5)
        if self.why is not None:
            # The program may have ended before the thread that stops it has said why.
            self.said.wait(GRACE)
            self.links.end_together() if self.links.is_linked() else self.host.end_together()
            return ENDED
        if code < 0:
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code


def brake_of(settings, plan):
    """Returns the brake of an enforced budget."""
    return Brake(
        BEGIN,
        settings["steps"],
        plan.get("step_seconds"),
        plan.get("measured"),
        settings["slowest"],
        settings["window"],
        plan.get("usd_per_hour"),
        settings["hard_usd"],
    )


def figures_of_type():
    """Returns the planned figures of the instance type that runs, if it is not the first of the preferred ones."""
    types = json.loads(os.environ.get("TRAINC_PLAN_TYPES", "{}"))
    if not types or not os.path.exists(RESOURCES):
        return {}
    with open(RESOURCES) as file:
        return types.get(json.load(file).get("current_instance_type"), {})


def limits_off(brake, alone):
    """Returns why a limit of the brake is not enforced, by the name of the setting."""
    off = {}
    if brake.hard_usd and not brake.usd_per_hour:
        off["hard_usd"] = "the price of the instances is unknown"
    if brake.slowest and alone:
        off["slowest"] = "a slow run is only reported: " + alone
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
    limits = settings["brake"]
    if limits:
        planned = json.loads(os.environ.get("TRAINC_PLAN") or "{}") | figures_of_type()
        path, brake = limits.pop("key"), brake_of(limits, planned)
        links = Links(place, *(read_key(path) if place.world > 1 else (None, None)))
        if place.rank == 0:
            say("trainc_brake", event="on", off=limits_off(brake, links.why_alone), **limits)
        sys.exit(Supervisor(command, brake, limits["patterns"], place, links).run())
    sys.stdout.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
