"""The HTTP server: reads and records a request, applies its faults, and passes it to the simulated service."""

import copy
import io
import json
import logging
import socket
import struct
import sys
import time
import traceback
import urllib.parse
from pathlib import Path

import moto.backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from .faults import Dropped, Replaced, Rule
from .fsx import Fsx
from .iam import Iam
from .logs import Logs
from .named import Images, Keys, Secrets
from .quotas import ServiceQuotas
from .sagemaker import SageMaker
from .seed import seed, state
from .storage import Storage
from .wire import Answer, Refused, ok, refusal, understand
from .world import World

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from validate import problems  # noqa: E402

ADMIN = "/_account/"


class Front:
    def __init__(self, account):
        self.world = World(account)
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.parts = {
            "fsx": Fsx(self.world),
            "sagemaker": SageMaker(self.world),
            "logs": Logs(self.world),
            "servicequotas": ServiceQuotas(self.world),
            "iam": Iam(self.world, self.ask),
            "s3": Storage(self.world),
            "kms": Keys(self.world),
            "secretsmanager": Secrets(self.world),
            "ecr": Images(self.world),
        }

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or -1)) if (
            environ.get("CONTENT_LENGTH") or environ.get("HTTP_TRANSFER_ENCODING") == "chunked"
        ) else b""
        if environ["PATH_INFO"].startswith(ADMIN):
            answer = self.admin(environ["PATH_INFO"].removeprefix(ADMIN), body)
        else:
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            try:
                answer = self.aws(environ, body)
            except Dropped:
                self.cut(environ)
        status = f"{answer.status} {'OK' if answer.status < 300 else 'Error'}"
        headers = {k: v for k, v in answer.headers.items() if k.lower() != "content-length"}
        said = answer.headers.get("Content-Length") if environ["REQUEST_METHOD"] == "HEAD" else None
        headers["Content-Length"] = said or str(len(answer.body))
        start_response(status, list(headers.items()))
        return [answer.body]

    @staticmethod
    def cut(environ):
        connection = environ["werkzeug.socket"]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        raise ConnectionResetError

    @staticmethod
    def half(environ, answer, spec):
        """Sends half of an answer, then stalls or disconnects. An answer without a body loses its last headers."""
        connection = environ["werkzeug.socket"]
        headers = {**answer.headers, "Content-Length": str(len(answer.body))}
        head = f"HTTP/1.1 {answer.status} OK\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        text = head.encode() + (b"\r\n" + answer.body[: len(answer.body) // 2] if answer.body else b"")
        connection.sendall(text)
        if spec["do"] == "stall":
            time.sleep(spec.get("seconds", 30))
        raise Dropped

    def aws(self, environ, body):
        call = understand(environ, body)
        if self.world.settings.latency_ms:
            time.sleep(self.world.settings.latency_ms / 1000)
        entry = {
            "time": time.time(),
            "call": call.name,
            "region": call.region,
            "method": call.method,
            "path": call.path,
            "query": call.query,
            "agent": call.headers.get("user-agent", ""),
            "attempt": call.headers.get("amz-sdk-request", ""),
            "headers": {k: v for k, v in call.headers.items() if k.startswith("x-amz-") and "token" not in k},
            "body": body.decode("utf-8", "replace") if len(body) < 200_000 and call.service != "s3" else None,
        }
        with self.world.lock:
            self.world.record.append(entry)
            bitten = [rule for rule in self.world.rules if rule.bites(call)]
        try:
            for rule in bitten:
                if not rule.after:
                    entry["fault"] = rule.spec["do"]
                    rule.strike(call, self.world.account)
            with self.world.lock:
                answer = self.effect(call, environ)
            for rule in bitten:
                if rule.cuts:
                    entry["fault"] = rule.spec["do"]
                    self.half(environ, answer, rule.spec)
                if rule.after:
                    entry["fault"] = rule.spec["do"]
                    rule.strike(call, self.world.account)
        except Replaced as other:
            answer = other.answer
        except Refused as no:
            entry["error"] = no.code
            answer = refusal(call, no)
        entry["status"] = answer.status
        return answer

    def effect(self, call, environ):
        try:
            if call.service in ("fsx", "sagemaker"):
                self.model(call)
            part = self.parts.get(call.service)
            answer = part.answer(call) if part is not None else None
            if answer is None:
                answer = self.pass_on(environ, call.body)
            if call.operation == "GetCallerIdentity":
                old = f"arn:aws:sts::{self.world.account}:user/moto".encode()
                new = f"arn:aws:iam::{self.world.account}:user/operator".encode()
                answer = Answer(answer.status, answer.headers, answer.body.replace(old, new))
            return answer
        except (Refused, Dropped):
            raise
        except Exception:
            traceback.print_exc()
            raise Refused("TestAccountBug", traceback.format_exc(limit=3)) from None

    @staticmethod
    def model(call):
        """Validates the request against botocore's model of the service."""
        try:
            found = problems(call.service, call.operation, call.json)
        except Refused:
            raise
        except Exception as why:  # an operation that botocore does not know
            raise Refused("UnknownOperationException", f"{call.name}: {why}") from None
        if found:
            code = "BadRequest" if call.service == "fsx" else "ValidationException"
            raise Refused(code, f"{len(found)} validation error(s) detected: " + "; ".join(found))

    def ask(self, call, form):
        """Sends another query of the same service to moto."""
        body = urllib.parse.urlencode(form).encode()
        return self.pass_on(
            {
                **call.environ,
                "CONTENT_LENGTH": str(len(body)),
                "REQUEST_METHOD": "POST",
            },
            body,
        )

    def pass_on(self, environ, body):
        environ = copy.copy(environ)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        got = {}

        def start(status, headers, exc_info=None):
            got["status"], got["headers"] = int(status.split()[0]), headers

        text = b"".join(self.moto(environ, start))
        return Answer(got["status"], dict(got["headers"]), text)

    def admin(self, what, body):
        with self.world.lock:
            asked = json.loads(body or b"null")
            try:
                return ok(self.administer(what, asked))
            except Exception:
                return Answer(400, {}, f"{what}: {traceback.format_exc(limit=4)}".encode())

    def administer(self, what, asked):
        world = self.world
        if what == "reset":
            for name in ("iam", "s3", "ec2", "sts", "secretsmanager", "kms"):
                moto.backends.get_backend(name).reset() if hasattr(moto.backends.get_backend(name), "reset") else None
                for account in list(moto.backends.get_backend(name).values()):
                    for backend in list(account.values()):
                        backend.reset()
            world.reset()
            return {}
        if what == "settings":
            world.set(asked)
            return {}
        if what == "faults":
            world.rules = [Rule(spec) for spec in asked or []]
            return {}
        if what == "met":
            return [rule.met for rule in world.rules]
        if what == "seed":
            return seed(world, asked)
        if what == "requests":
            return world.record
        if what == "forget":
            world.record = []
            return {}
        if what == "state":
            return state(world)
        raise ValueError("the account does not know this")


def serve(account, port, ready=None):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", port, Front(account), threaded=True, request_handler=MotoRequestHandler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_port}"
    if ready:
        Path(ready).write_text(url, encoding="ascii")
    else:
        print(url, flush=True)
    server.serve_forever()
