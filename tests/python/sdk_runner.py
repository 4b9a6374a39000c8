"""Runs `estimator.py` scripts under the real SageMaker SDK; started by sdk_capture.py, never imported.

Reads a JSON job from stdin: {"scratch": DIR, "scripts": [{"path": P, "text": source or null}]}; prints one JSON
list with a result per script. The SDK is imported once (it costs seconds) and every script then runs in a
forked child: full isolation (module state, environment, working directory) for a fraction of a second each.

No byte leaves the machine: `URLLib3Session.send`, which botocore uses for all HTTP, is replaced by canned answers, and
an audit hook, which Python code cannot remove, rejects and records every socket call.
"""

import functools
import gc
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import time
import traceback
import types
import urllib.parse

ACCOUNT = "111122223333"
TIMESTAMP = "2026-01-01-00-00-00-000"

record = {"requests": [], "uploads": [], "git": [], "network": [], "processes": [], "unanswered": [], "calls": []}


def audit(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"):
        what = f"{event} {args[1:] if event.startswith('socket.connect') else args}"
        record["network"].append(what)
        raise OSError(f"no network under sdk_runner: {what}")
    if event == "subprocess.Popen":
        argv = [os.fspath(a) for a in args[1]] if not isinstance(args[1], str) else [args[1]]
        if pathlib.PurePath(argv[0]).name != "git":
            record["processes"].append(argv)


class Body(io.BytesIO):
    """The raw response that AWSResponse expects."""

    def stream(self, *_args, **_kwargs):
        yield self.read()


def read_body(body):
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    return body.read()


def s3(request, url, body):
    """Answers as S3: every bucket exists in the requested region and accepts every object."""
    host = url.netloc.split(".s3")[0] if ".s3" in url.netloc else None
    bucket, _, key = url.path.lstrip("/").partition("/") if host is None else (host, "", url.path.lstrip("/"))
    key = urllib.parse.unquote(key)
    if request.method == "GET" and not bucket:  # ListBuckets: the SDK's default bucket of the region exists.
        name = f"sagemaker-{scope(request)[0]}-{ACCOUNT}"
        one = f"<Bucket><Name>{name}</Name><CreationDate>2026-01-01T00:00:00Z</CreationDate></Bucket>"
        return 200, {}, f"<ListAllMyBucketsResult><Buckets>{one}</Buckets></ListAllMyBucketsResult>".encode()
    if request.method == "PUT" and key:
        members = []
        if key.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as archive:
                members = sorted(m.name for m in archive.getmembers() if m.isfile())
        record["uploads"].append({"bucket": bucket, "key": key, "bytes": len(body), "members": members})
        return 200, {"ETag": '"0"'}, b""
    if request.method == "PUT" or request.method == "HEAD" and not key:
        return 200, {"x-amz-bucket-region": scope(request)[0] or "us-east-1"}, b""
    if request.method == "HEAD":
        return 200, {"ETag": '"0"', "Content-Length": "0"}, b""
    return None


def query_answer(action, inner):
    result = f"<{action}Result>{inner}</{action}Result>"
    meta = "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    return 200, {"Content-Type": "text/xml"}, f"<{action}Response>{result}{meta}</{action}Response>".encode()


def query(service, body, _region):
    """Answers as STS and IAM, in the query protocol."""
    fields = dict(urllib.parse.parse_qsl(body.decode()))
    action = fields.get("Action", "")
    if (service, action) == ("sts", "GetCallerIdentity"):
        inner = f"<Arn>arn:aws:iam::{ACCOUNT}:user/someone</Arn><UserId>AIDA</UserId><Account>{ACCOUNT}</Account>"
        return action, query_answer(action, inner)
    if (service, action) == ("iam", "GetRole"):
        name = fields.get("RoleName", "")
        inner = (
            f"<Role><Path>/</Path><RoleName>{name}</RoleName><RoleId>AROA</RoleId>"
            f"<Arn>arn:aws:iam::{ACCOUNT}:role/{name}</Arn><CreateDate>2026-01-01T00:00:00Z</CreateDate></Role>"
        )
        return action, query_answer(action, inner)
    return action, None


def json_protocol(service, request, body, region):
    """Answers as SageMaker, FSx, Logs and ECR, in the JSON protocol."""
    target = request.headers.get("X-Amz-Target", "")
    if isinstance(target, bytes):
        target = target.decode()
    action = target.rpartition(".")[2]
    sent = json.loads(body or b"{}")
    arn = f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-job/{sent.get('TrainingJobName', '')}"
    answer = None
    if action == "CreateTrainingJob":
        record["requests"].append(sent)
        answer = {"TrainingJobArn": arn}
    elif action == "DescribeTrainingJob":
        created = record["requests"][-1] if record["requests"] else {}
        answer = {**created, "TrainingJobArn": arn, "TrainingJobStatus": "Completed", "SecondaryStatus": "Completed"}
        answer["CreationTime"] = answer["LastModifiedTime"] = 1767225600
        answer["SecondaryStatusTransitions"] = []
        answer["ModelArtifacts"] = {"S3ModelArtifacts": "s3://b/model.tar.gz"}
    elif service == "fsx" and action == "DescribeFileSystems":
        mounts = json.loads(os.environ.get("TRAINC_SAMPLE_MOUNTS", "{}"))
        ids = sent.get("FileSystemIds", list(mounts))
        answer = {
            "FileSystems": [
                {
                    "FileSystemId": i,
                    "FileSystemType": "LUSTRE",
                    "Lifecycle": "AVAILABLE",
                    "LustreConfiguration": {"MountName": mounts.get(i, "3x5lhbmv")},
                }
                for i in ids
            ]
        }
    elif service == "logs":
        answer = {"logStreams": [], "events": []}
    elif service == "ecr" and action == "GetAuthorizationToken":
        answer = {"authorizationData": []}
    if answer is None:
        return action, None
    return action, (200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode())


def scope(request):
    """Returns (region, service) from the credential scope of the signature."""
    signature = request.headers.get("Authorization", "")
    if isinstance(signature, bytes):
        signature = signature.decode()
    found = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request", signature)
    return found.groups() if found else (None, None)


def send(_session, request):
    from botocore.awsrequest import AWSResponse

    url = urllib.parse.urlsplit(request.url)
    region, service = scope(request)
    body = read_body(request.body)
    if service == "s3":
        action, answer = f"{request.method} {url.path}", s3(request, url, body)
    elif service in ("sts", "iam"):
        action, answer = query(service, body, region)
    else:
        action, answer = json_protocol(service, request, body, region)
    record["calls"].append(f"{service}:{action}")
    if answer is None:
        record["unanswered"].append(f"{service}:{action}")
        answer = 400, {}, json.dumps({"__type": "NoCannedAnswer", "message": f"{service}:{action}"}).encode()
    status, headers, content = answer
    headers.setdefault("Content-Length", str(len(content)))
    return AWSResponse(request.url, status, headers, Body(content))


def patch():
    """Installs canned HTTP answers, a fixed clock, and a git that creates the files that the SDK expects."""
    import botocore.httpsession
    import sagemaker.git_utils
    import sagemaker.telemetry.telemetry_logging
    import sagemaker.utils

    botocore.httpsession.URLLib3Session.send = send
    # fit() sends telemetry to a bucket of AWS; disabling it in the configuration file costs a second per script
    # (the SDK validates that file against a schema every time).
    sagemaker.telemetry.telemetry_logging._send_telemetry_request = lambda *_args, **_kwargs: None
    sagemaker.utils.sagemaker_timestamp = lambda: TIMESTAMP
    sagemaker.utils.sagemaker_short_timestamp = lambda: "260101-0000"
    time.sleep = lambda _seconds: None

    original = sagemaker.git_utils.git_clone_repo

    def git_clone_repo(git_config, entry_point, source_dir=None, dependencies=None):
        wanted = [str(pathlib.PurePosixPath(source_dir or ".") / entry_point), *(dependencies or [])]
        os.environ["STUB_GIT_FILES"] = "\n".join(wanted)
        return original(git_config, entry_point, source_dir, dependencies)

    sagemaker.git_utils.git_clone_repo = git_clone_repo


def warm():
    """Reads botocore's service models once, before the first fork: parsing them is most of a script's time."""
    import boto3
    import botocore.loaders
    import sagemaker

    loader = botocore.loaders.JSONFileLoader
    read = functools.cache(loader._load_file)
    loader._load_file = lambda self, path, opener: read(loader_instance, path, opener)
    loader_instance = loader()
    session = boto3.Session(region_name="us-east-1")
    for service in ("sts", "s3", "iam", "fsx", "logs"):
        session.client(service)
    session.resource("s3")
    sagemaker.Session(session)
    gc.freeze()


def git_calls(log, scratch):
    """Returns the recorded command lines, with <scratch> for the SDK's temporary clone."""
    if not log.exists():
        return []
    calls = [line.split("\x1f") for line in log.read_text().splitlines()]
    return [["git"] + ["<scratch>" if a.startswith(str(scratch)) else a for a in call if a] for call in calls]


def run(script, text, own):
    """Runs one script as `__main__` and returns its record. Called only in a forked child."""
    for name in ("home", "tmp", "cwd"):
        (own / name).mkdir(parents=True)
    os.environ.update(HOME=str(own / "home"), TMPDIR=str(own / "tmp"), STUB_GIT_LOG=str(own / "git.log"))
    import tempfile

    tempfile.tempdir = str(own / "tmp")
    os.chdir(own / "cwd")
    sys.argv = [str(script)]
    sys.path[0] = str(script.parent)
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    error = None
    try:
        source = text if text is not None else script.read_text()
        exec(compile(source, str(script), "exec"), module.__dict__)
    except SystemExit as end:
        error = None if end.code in (None, 0) else f"SystemExit: {end.code}"
    except BaseException as problem:  # noqa: BLE001, the script's failure is the result
        error = f"{type(problem).__name__}: {problem}"[:2000]
        record["traceback"] = traceback.format_exc()
    record["git"] = git_calls(own / "git.log", own)
    return {**record, "error": error}


def main():
    job = json.load(sys.stdin)
    scratch = pathlib.Path(job["scratch"])
    out = os.dup(1)
    os.dup2(2, 1)  # scripts and git print to stderr; stdout contains only the results

    import boto3  # noqa: F401
    import sagemaker.debugger  # noqa: F401
    import sagemaker.estimator  # noqa: F401
    import sagemaker.huggingface  # noqa: F401
    import sagemaker.pytorch  # noqa: F401

    patch()
    sys.addaudithook(audit)
    warm()
    results = []
    for index, script in enumerate(job["scripts"]):
        own = scratch / str(index)
        own.mkdir()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                result = run(pathlib.Path(script["path"]), script["text"], own)
                (own / "result.json").write_text(json.dumps(result))
                code = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        os.waitpid(child, 0)
        answer = own / "result.json"
        results.append(json.loads(answer.read_text()) if answer.exists() else {**record, "error": "died"})
    with os.fdopen(out, "w") as stream:
        json.dump(results, stream)


if __name__ == "__main__":
    main()
