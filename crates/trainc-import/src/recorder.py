"""Runs a script of a user with every AWS call answered here, and records the training jobs that it would have created.

`trainc import job.py` writes this file to a temporary directory and starts it with the user's Python:

    python recorder.py RECORD SECONDS stop|go-on SCRIPT [ARGUMENT …]

RECORD receives one JSON object a line, which `recording.rs` reads, and RECORD.hang a traceback after SECONDS. With `go-on`
a statement that fails is skipped. Nothing but the standard library is imported here.
botocore's `Endpoint.make_request` is replaced: it comes after botocore has validated and serialized a request, and before
credentials, signature and network. An audit hook, which Python code cannot remove, rejects sockets and programs.

The account is not known. Each question whose answer only the account has is recorded as `unknown`, with its line: a request that
comes after it may be another one there. Known are the whole account ID, a role by its name, and what the script has made itself.
"""

import ast
import builtins
import faulthandler
import functools
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import shlex
import sys
import threading
import time
import tokenize
import types

# Replaced in what is recorded: the account is `${account}`, the role `${role_arn}`.
ACCOUNT = "000000000000"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/trainc-import"
# Name of the roles that the console creates, which have the path `/service-role/` (`get_caller_identity_arn` of the SageMaker
# SDK 2.257.7 says so).
CONSOLE_ROLE = "AmazonSageMaker-ExecutionRole"
# The region where none is configured.
REGION = "us-east-1"
# Text in every value that has no better answer; trainc reports a request that contains it.
MADE_UP = "made-up"

# Beginnings of the errors for what only an account has: objects, and answers of a model.
NO_OBJECTS = "trainc import reads no objects: "
NO_MODEL = "trainc import runs no model: "

# Longest sleep of the script, in seconds: it may wait for what an account would do.
MOST_SLEEP = 0.01
# Largest object that is kept for a later read, in bytes.
MOST_KEPT = 1 << 20
# Files whose text is recorded when they are uploaded: the settings of a program, which notebooks delete afterwards. With the largest
# size, in bytes.
SETTINGS = (".yaml", ".yml", ".json")
MOST_SETTINGS = 1 << 16

# Programs that are started: they only read this machine, or create a directory. Of git, only what reads the local repository.
PROGRAMS = {"true", "uname", "hostname", "whoami", "which", "ldconfig", "lscpu", "nvidia-smi", "getconf", "date", "pwd", "mkdir",
            "ls", "cat", "echo", "head", "tail", "wc", "nproc", "basename", "dirname"}
SHELLS = {"sh", "bash", "dash"}
GIT_READS = {"rev-parse", "status", "log", "describe", "diff", "show", "branch", "ls-files", "symbolic-ref"}

# Operations that change something begin with these words, and answer with what the script says; all others ask for what the
# account has. IDs that they return contain the text of `MADE_UP`.
WRITES = (
    *("Abort", "Add", "Associate", "Assume", "Attach", "Authorize", "BatchDelete", "BatchPut", "BatchWrite", "Complete", "Copy"),
    *("Create", "Delete", "Deregister", "Detach", "Disable", "Disassociate", "Enable", "Grant", "Modify", "Publish", "Put"),
    *("Register", "Remove", "Restore", "Revoke", "RunInstances", "Send", "Set", "Start", "Stop", "Submit", "Tag", "Terminate"),
    *("Untag", "Update", "Upload"),
)
# Operations by which the SageMaker SDK makes sure of its default bucket and role, and follows the logs of a job: no answer changes
# the request.
READS_OF_SDK = {"s3_HeadBucket", "s3_ListBuckets", "s3_GetBucketLocation", "iam_SimulatePrincipalPolicy", "logs_DescribeLogStreams",
                "logs_GetLogEvents"}

# Values of a status, the best first, in lowercase.
STATUSES = ("completed", "succeeded", "inservice", "active", "available", "ready", "created")

SOCKET_EVENTS = {
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.sendto",
    "socket.sendmsg",
}
PROGRAM_EVENTS = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen"}


class Recorder:
    """The record, and the answers that depend on earlier calls."""

    def __init__(self, path):
        # Appended to by this process and those that it forks.
        self.directory = os.path.dirname(os.path.abspath(path))
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lock = threading.Lock()
        # Training jobs by their name, and the settings of other things by service and kind.
        self.jobs = {}
        self.made = {}
        self.tuned = {}
        # Paths of the roles that it has created.
        self.roles = {}
        # Buckets that the script has created, and objects that it has written; None for content that is not kept.
        self.buckets = set()
        self.objects = {}
        self.params = threading.local()
        self.clones = {}
        self.requests = 0
        # Whether files belong to the script, by name.
        self.script_files = {}
        self.script_directory = ""
        self.script = ""
        self.skipper = None

    def add(self, kind, **members):
        line = json.dumps({"kind": kind, **members}, default=str) + "\n"
        with self.lock:
            self.requests += kind == "request"
            os.write(self.file, line.encode())

    def created_names(self):
        """Returns the names of what the script has created."""
        made = [settings for all_settings in self.made.values() for settings in all_settings]
        return {value for settings in made for value in settings.values() if isinstance(value, str)} | set(self.jobs)

    def add_unknown(self, what):
        """Records what the script has done that only the account could answer, at its line."""
        self.add("unknown", what=what, line=line_of_script())


recorder = None


def audit(event, args):
    """Rejects sockets and programs."""
    if event in SOCKET_EVENTS:
        target = args[1] if event in ("socket.connect", "socket.sendto", "socket.sendmsg") else args[0]
        # `socket.getfqdn` and the like ask for this machine's own name.
        if event.startswith("socket.get") and target in (None, "", "localhost", os.uname().nodename):
            return
        recorder.add("blocked", what=describe_address(target))
        if asker() == "script":
            recorder.add_unknown(f"connects to `{describe_address(target)}`: trainc blocks it")
        raise OSError(f"trainc import blocks the network: {describe_address(target)}")
    if event in PROGRAM_EVENTS:
        words = args[0] if event == "os.system" else args[1] if len(args) > 1 else args[0]
        if not is_allowed(words):
            recorder.add("skipped", what=describe_program(words))
            raise PermissionError(f"trainc import starts no programs: {describe_program(words)}")


def describe_address(target):
    if isinstance(target, tuple):
        return ":".join(str(part) for part in target[:2])
    return target.decode(errors="replace") if isinstance(target, bytes) else str(target)


def words_of(command):
    if isinstance(command, (str, bytes)):
        text = os.fsdecode(command)
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()
    if isinstance(command, os.PathLike):
        return [os.fspath(command)]
    return [os.fsdecode(os.fspath(word)) for word in command]


def describe_program(command):
    return " ".join(words_of(command))[:200]


def frames_of_caller():
    """Yields the frames that led here: those of this thread, then those of the main thread, which waits for it."""
    for frame in (sys._getframe(1), sys._current_frames().get(threading.main_thread().ident)):
        while frame is not None:
            yield frame
            frame = frame.f_back


def line_of_script():
    """Returns the line of the script that led here; None if there is none, as in a magic."""
    lines = (frame.f_lineno for frame in frames_of_caller() if frame.f_code.co_filename == recorder.script)
    return next(lines, None)


STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
# Packages through which a call of AWS goes.
CLIENTS = ("botocore", "boto3", "s3transfer")


def asker():
    """Returns who asks, through the standard library and boto3: the `script`, or the name of a package."""
    for frame in frames_of_caller():
        filename = frame.f_code.co_filename
        if filename != __file__ and is_of_script(filename):
            return "script"
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        is_standard = filename.startswith(("<", STANDARD_LIBRARY)) and "-packages" not in filename
        if filename != __file__ and package not in CLIENTS and not is_standard:
            return package
    return ""


def is_asked_by(filename):
    """Returns whether a file of a library led here."""
    return any(frame.f_code.co_filename.endswith(filename) for frame in frames_of_caller())


def is_allowed(command):
    words = words_of(command)
    if not words:
        return False
    name = pathlib.PurePath(words[0]).name
    if name in SHELLS and len(words) == 3 and words[1] == "-c":
        # A shell that starts a program is no other program.
        return "\n" not in words[2] and is_allowed(words[2])
    if any(sign in word for word in words for sign in ";|&`$<>"):
        return False
    if name == "git":
        return next((word for word in words[1:] if not word.startswith("-")), None) in GIT_READS
    return name in PROGRAMS


def patch_programs():
    """Replaces programs that would not be allowed by one that does nothing, so that the script goes on."""
    import subprocess

    start = subprocess.Popen.__init__

    def popen(self, args, *rest, **options):
        command = args
        if options.get("shell"):
            # Only the first word of a list is the command of the shell.
            words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
            command = ["sh", "-c", *map(os.fsdecode, words)]
        if not is_allowed(command):
            what = describe_program(args)
            recorder.add("skipped", what=what)
            if options.get("stdout") == subprocess.PIPE and asker() == "script":
                recorder.add_unknown(f"reads the output of `{what}`: trainc does not run it, and answers with nothing")
            options.pop("executable", None)
            options["shell"] = False
            args = ["true"]
        return start(self, args, *rest, **options)

    def system(command):
        # The exit code of the process, shifted as that of `os.system`.
        return subprocess.call(command, shell=True) << 8

    subprocess.Popen.__init__ = popen
    os.system = system


def patch_spawn(module):
    """Forks the processes of multiprocessing: a Python that is started anew would not be recorded."""
    from multiprocessing import popen_fork

    module.Popen = popen_fork.Popen


def patch_sleep():
    """Shortens sleeps, and moves the clocks on, so that a loop that waits until a time ends. trainc says so before it runs
    the script."""
    sleep, slept = time.sleep, [0.0]

    def short_sleep(seconds):
        sleep(min(max(seconds, 0), MOST_SLEEP))
        slept[0] += max(seconds, 0)

    time.sleep = short_sleep
    for name in ("time", "monotonic", "perf_counter"):
        clock = getattr(time, name)
        setattr(time, name, lambda clock=clock: clock() + slept[0])


# --- botocore -------------------------------------------------------------------------------------------------------


class Response:
    """What botocore's client and its handlers read of an HTTP response."""

    def __init__(self, status, url):
        self.status_code = status
        self.url = url
        self.headers = {}
        self.raw = None
        self.content = b""
        self.text = ""


class NotFound(Exception):
    """An answer of the service: there is no such thing."""

    def __init__(self, message, code="404"):
        super().__init__(message)
        self.code = code


def patch_endpoint(module):
    def make_request(self, operation_model, request_dict):
        service = operation_model.service_model.service_name
        operation = operation_model.name
        region, partition, params = getattr(recorder.params, "call", (None, "aws", {}))
        call = Call(service, operation_model, region or REGION, partition, params)
        recorder.add("call", service=service, operation=operation)
        status = 200
        try:
            parsed = call.answer(request_dict.get("body"))
        except NotFound as missing:
            status, parsed = 404, {"Error": {"Code": missing.code, "Message": str(missing)}}
            call.unknown = "that it does not exist"
        if call.unknown and not (call.key in READS_OF_SDK and asker().startswith("sagemaker")):
            recorder.add_unknown(f"asks for `{service} {operation}`: trainc answers {call.unknown}")
        parsed["ResponseMetadata"] = {
            "RequestId": MADE_UP,
            "HTTPStatusCode": status,
            "HTTPHeaders": {"x-amz-bucket-region": call.region},
            "RetryAttempts": 0,
        }
        return Response(status, request_dict.get("url")), parsed

    module.Endpoint.make_request = make_request


def patch_client(module):
    call = module.BaseClient._make_api_call

    def make_api_call(self, operation_name, api_params):
        recorder.params.call = (self.meta.region_name, self.meta.partition, api_params)
        return call(self, operation_name, api_params)

    module.BaseClient._make_api_call = make_api_call


def patch_waiter(module):
    """Ends each wait at once: what a script waits for is there, as far as it goes on."""

    def wait(self, **options):
        names = {value for value in options.values() if isinstance(value, str)}
        is_own = any(name in recorder.created_names() for name in names)
        if not is_own:
            recorder.add_unknown(f"waits for `{self.name}`: trainc answers at once")

    module.Waiter.wait = wait


def patch_validation(module):
    """Lets values of an invalid length pass, such as `fs-XXXX`: trainc reports them in the manifest."""
    module.range_check = lambda *_args, **_options: None


def patch_session(module):
    """Keeps botocore from reading credentials, and answers for a profile or a region that is not configured."""
    import botocore.credentials
    import botocore.exceptions

    session = module.Session
    scoped = session.get_scoped_config
    variable = session.get_config_variable

    def get_config_variable(self, logical_name, *args, **options):
        value = variable(self, logical_name, *args, **options)
        if value is None and logical_name == "region":
            recorder.add("assumed", region=REGION)
            return REGION
        return value

    def get_scoped_config(self):
        try:
            return scoped(self)
        except botocore.exceptions.ProfileNotFound:
            return {}

    session.get_credentials = lambda self: botocore.credentials.Credentials("trainc", "trainc", method="trainc")
    session.get_scoped_config = get_scoped_config
    session.get_config_variable = get_config_variable


class Call:
    """A call of an operation, and its answer."""

    def __init__(self, service, model, region, partition, params):
        self.service = service
        self.model = model
        self.operation = model.name
        self.region = region
        self.partition = partition
        self.params = params
        self.shape = model.output_shape
        self.key = f"{service}_{model.name}".replace("-", "_")
        # What the answer is, if only the account knows it.
        self.unknown = None

    def arn(self, kind, name):
        return f"arn:{self.partition}:{self.service}:{self.region}:{ACCOUNT}:{kind}/{name}"

    def answer(self, body):
        known = getattr(self, self.key, None)
        if known is not None:
            return known(body)
        verb = re.match(r"[A-Z][a-z]*", self.operation)
        verb = verb[0] if verb else ""
        kind = self.service, self.operation[len(verb) :]
        if verb == "Create":
            if "Definition" in "".join(self.params):
                self.record(body)
            recorder.made.setdefault(kind, []).append(dict(self.params))
        known = self.find_made(kind) if verb in ("Describe", "Get") else {}
        answer = self.describe(known, {**known, **self.params})
        if not known and not self.operation.startswith(WRITES):
            self.unknown = describe_answer(answer)
        return answer

    def find_made(self, kind):
        """Returns how the script has created what it asks for by its name; empty if it has not."""
        said = {name: value for name, value in self.params.items() if isinstance(value, str)}
        return next((made for made in reversed(recorder.made.get(kind, [])) if said and said.items() <= made.items()), {})

    def describe(self, known, said):
        """Returns an output: of what the script has created, without the members that it has not set."""
        made_up = self.make_up(self.shape, said)
        create = self.operation.replace("Describe", "Create", 1)
        if not known or create not in self.model.service_model.operation_names:
            return made_up
        settings = self.model.service_model.operation_model(create).input_shape.members
        return {name: value for name, value in made_up.items() if name in known or name not in settings}

    def record(self, body):
        """Records the request as it would be sent."""
        try:
            request = json.loads(body)
        except (TypeError, ValueError):
            request = self.params
        recorder.add("request", operation=self.operation, region=self.region, request=request)

    def make_up(self, shape, said, depth=0):
        """Returns an output: what the caller said of it, the best status, and values that are marked as made up."""
        out = {}
        for name, member in (shape.members if shape is not None else {}).items():
            if name in said and type(said[name]) in (str, int, bool, list, dict):
                out[name] = said[name]
            elif not re.search(r"token|marker|failure|truncated", name, re.IGNORECASE):
                out[name] = self.value(name, member, said, depth)
        return {name: value for name, value in out.items() if value is not None}

    def value(self, name, shape, said, depth):
        import datetime

        kind = shape.type_name
        if kind == "structure":
            return self.make_up(shape, said, depth + 1) if depth < 3 else None
        if kind == "string":
            enum = list(getattr(shape, "enum", None) or [])
            if enum:
                found = {value.lower(): value for value in enum}
                return next((found[status] for status in STATUSES if status in found), enum[0])
            if name.endswith("Arn"):
                return self.arn(name[:-3].lower(), MADE_UP)
            return f"{MADE_UP}-{name}"
        if kind == "timestamp":
            return datetime.datetime.now(datetime.timezone.utc)
        if kind == "blob":
            return b""
        return {"list": [], "map": {}, "boolean": False}.get(kind, 0)

    # --- SageMaker

    def sagemaker_CreateTrainingJob(self, body):
        self.record(body)
        name = self.params["TrainingJobName"]
        recorder.jobs[name] = dict(self.params)
        return {"TrainingJobArn": self.arn("training-job", name)}

    def sagemaker_DescribeTrainingJob(self, _body):
        import datetime

        name = self.params["TrainingJobName"]
        now = datetime.datetime.now(datetime.timezone.utc)
        # SageMaker names the training jobs of a tuning job.
        known = recorder.jobs.get(name) or recorder.tuned
        if not known:
            self.unknown = "with made-up values"
        said = {**known, "TrainingJobName": name}
        output = {"KmsKeyId": "", "S3OutputPath": f"s3://{MADE_UP}", **said.get("OutputDataConfig", {})}

        def evaluations(rules):
            names = [rule["RuleConfigurationName"] for rule in said.get(rules, [])]
            return [
                {
                    "RuleConfigurationName": name,
                    "RuleEvaluationJobArn": self.arn("processing-job", f"{MADE_UP}-{name.lower()}"),
                    "RuleEvaluationStatus": "NoIssuesFound",
                    "LastModifiedTime": now,
                }
                for name in names
            ]

        return {
            **self.describe(known, {}),
            **said,
            "OutputDataConfig": output,
            "DebugRuleEvaluationStatuses": evaluations("DebugRuleConfigurations"),
            "ProfilerRuleEvaluationStatuses": evaluations("ProfilerRuleConfigurations"),
            "TrainingJobArn": self.arn("training-job", name),
            "TrainingJobStatus": "Completed",
            "SecondaryStatus": "Completed",
            "SecondaryStatusTransitions": [
                {"Status": "Completed", "StartTime": now, "EndTime": now, "StatusMessage": "Training job completed"}
            ],
            "CreationTime": now,
            "TrainingStartTime": now,
            "TrainingEndTime": now,
            "TrainingTimeInSeconds": 1,
            "BillableTimeInSeconds": 1,
            "LastModifiedTime": now,
            "ModelArtifacts": {"S3ModelArtifacts": f"{output['S3OutputPath'].rstrip('/')}/{name}/output/model.tar.gz"},
        }

    def sagemaker_CreateHyperParameterTuningJob(self, body):
        """Records the definition under the tuning job's name: SageMaker makes the names of its training jobs."""
        name = self.params["HyperParameterTuningJobName"]
        request = json.loads(body)
        for definition in [request.get("TrainingJobDefinition"), *request.get("TrainingJobDefinitions", [])]:
            if definition:
                definition.setdefault("TrainingJobName", definition.get("DefinitionName", name))
        recorder.add("request", operation=self.operation, region=self.region, request=request)
        recorder.made.setdefault((self.service, "HyperParameterTuningJob"), []).append(dict(self.params))
        for definition in [self.params.get("TrainingJobDefinition"), *self.params.get("TrainingJobDefinitions", [])]:
            if definition:
                recorder.tuned = {
                    "ResourceConfig": definition.get("HyperParameterTuningResourceConfig", {}),
                    **definition,
                    "HyperParameters": definition.get("StaticHyperParameters", {}),
                }
        return {"HyperParameterTuningJobArn": self.arn("hyper-parameter-tuning-job", name)}

    def sagemaker_CreatePipeline(self, _body):
        self.record_pipeline()
        return {"PipelineArn": self.arn("pipeline", self.params["PipelineName"])}

    sagemaker_UpdatePipeline = sagemaker_CreatePipeline

    def record_pipeline(self):
        """Records the definition of a pipeline with the defaults of its parameters, and the names of its steps."""
        try:
            request = json.loads(self.params["PipelineDefinition"])
        except (KeyError, ValueError):
            return
        defaults = {f"Parameters.{one['Name']}": one.get("DefaultValue") for one in request.get("Parameters", [])}
        request = with_defaults(request, defaults)
        for step in request.get("Steps", []):
            arguments = step.get("Arguments")
            job = arguments.get("TrainingJobDefinition") if isinstance(arguments, dict) else None
            job = arguments if step.get("Type") == "Training" else job
            if isinstance(job, dict):
                job.setdefault("TrainingJobName", step["Name"])
        recorder.add("request", operation=self.operation, region=self.region, request=request)

    # --- AWS Batch

    def batch_SubmitServiceJob(self, _body):
        """Records the request that Batch will send for a job of a training queue."""
        request = json.loads(self.params.get("serviceRequestPayload", "{}"))
        if isinstance(request, dict):
            request.setdefault("TrainingJobName", self.params["jobName"])
        recorder.add("request", operation=self.operation, region=self.region, request=request)
        return self.make_up(self.shape, self.params)

    # --- identity

    def sts_AssumeRole(self, _body):
        import datetime

        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        keys = {"AccessKeyId": "trainc", "SecretAccessKey": "trainc", "SessionToken": "trainc", "Expiration": end}
        return {**self.make_up(self.shape, {}), "Credentials": keys}

    def sts_GetCallerIdentity(self, _body):
        role = ROLE.rpartition("/")[2]
        arn = f"arn:{self.partition}:sts::{ACCOUNT}:assumed-role/{role}/trainc"
        return {"UserId": f"{MADE_UP}:trainc", "Account": AccountText(ACCOUNT), "Arn": AccountText(arn)}

    def iam_GetRole(self, _body):
        name = self.params["RoleName"]
        path = "/service-role/" if name.startswith(CONSOLE_ROLE) else "/"
        return self.role(recorder.roles.get(name, path), created=False)

    def iam_CreateRole(self, _body):
        path = recorder.roles[self.params["RoleName"]] = self.params.get("Path", "/")
        return self.role(path, created=True)

    def role(self, path, created):
        answer = self.make_up(self.shape, {})
        name = self.params["RoleName"]
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "sagemaker.amazonaws.com"},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
        arn = f"arn:{self.partition}:iam::{ACCOUNT}:role{path}{name}"
        recorder.add("role", arn=arn, created=created)
        answer["Role"].update(
            RoleName=name,
            Path=path,
            Arn=AccountText(arn),
            AssumeRolePolicyDocument=json.dumps(trust),
        )
        return answer

    def iam_SimulatePrincipalPolicy(self, _body):
        actions = self.params.get("ActionNames", [])
        self.unknown = "that all are allowed"
        return {"EvaluationResults": [{"EvalActionName": name, "EvalDecision": "allowed"} for name in actions]}

    # --- S3: every bucket exists, and objects are those that the script has written

    def is_own_bucket(self):
        """Returns whether the script has created the bucket, or it is the default one, which the SDK creates."""
        name = self.params.get("Bucket")
        return name in recorder.buckets or name == f"sagemaker-{self.region}-{ACCOUNT}"

    def s3_CreateBucket(self, _body):
        recorder.buckets.add(self.params["Bucket"])
        return self.make_up(self.shape, self.params)

    def s3_HeadBucket(self, _body):
        self.unknown = None if self.is_own_bucket() else "that it exists"
        return self.make_up(self.shape, self.params)

    def s3_ListBuckets(self, _body):
        import datetime

        now = datetime.datetime.now(datetime.timezone.utc)
        self.unknown = "with the default bucket alone"
        return {"Buckets": [{"Name": f"sagemaker-{self.region}-{ACCOUNT}", "CreationDate": now}]}

    def s3_GetBucketLocation(self, _body):
        self.unknown = None if self.is_own_bucket() else "with the region of the client"
        return {"LocationConstraint": None if self.region == "us-east-1" else self.region}

    def s3_PutObject(self, _body):
        data = self.params.get("Body", b"")
        if hasattr(data, "read"):
            data = data.read(MOST_KEPT + 1)
        data = data.encode() if isinstance(data, str) else bytes(data)
        recorder.objects[self.params["Bucket"], self.params["Key"]] = data
        uri = f"s3://{self.params['Bucket']}/{self.params['Key']}"
        recorder.add("uploaded", uri=uri, text=settings_text(uri, data))
        return {"ETag": f'"{MADE_UP}"'}

    def s3_CopyObject(self, _body):
        source = self.params["CopySource"]
        bucket, _, key = source.partition("/") if isinstance(source, str) else (source["Bucket"], "/", source["Key"])
        recorder.objects[self.params["Bucket"], self.params["Key"]] = recorder.objects.get((bucket, key))
        return self.make_up(self.shape, {})

    def s3_CreateMultipartUpload(self, _body):
        recorder.objects[self.params["Bucket"], self.params["Key"]] = None
        recorder.add("uploaded", uri=f"s3://{self.params['Bucket']}/{self.params['Key']}")
        return {"UploadId": MADE_UP, "Bucket": self.params["Bucket"], "Key": self.params["Key"]}

    def s3_UploadPart(self, _body):
        return {"ETag": f'"{MADE_UP}"'}

    def object(self):
        """Returns the content of an object that the script has written; what else there is, only the account knows."""
        place = self.params["Bucket"], self.params["Key"]
        data = recorder.objects.get(place)
        if data is None and not (self.operation == "HeadObject" and place in recorder.objects):
            code = "404" if self.operation == "HeadObject" else "NoSuchKey"
            raise NotFound(f"{NO_OBJECTS}s3://{'/'.join(place)}", code)
        if data is None:
            self.unknown = "with the length 0"
        return data or b""

    def s3_HeadObject(self, _body):
        # A copy asks for the length alone.
        return self.head(b"" if is_asked_by(os.path.join("s3transfer", "copies.py")) else self.object())

    def head(self, data):
        import datetime

        now = datetime.datetime.now(datetime.timezone.utc)
        return {"ContentLength": len(data), "ETag": f'"{MADE_UP}"', "LastModified": now, "Metadata": {}}

    def s3_GetObject(self, _body):
        from botocore.response import StreamingBody

        data = self.object()
        return {**self.head(data), "Body": StreamingBody(io.BytesIO(data), len(data))}

    def s3_ListObjectsV2(self, _body):
        import datetime

        now = datetime.datetime.now(datetime.timezone.utc)
        found = [
            {"Key": key, "Size": len(data or b""), "LastModified": now, "ETag": f'"{MADE_UP}"'}
            for (bucket, key), data in recorder.objects.items()
            if bucket == self.params["Bucket"] and key.startswith(self.params.get("Prefix", ""))
        ]
        if self.params["Bucket"] not in recorder.buckets:
            self.unknown = "with what the script has written" if found else "with an empty list"
        return {"Contents": found, "KeyCount": len(found), "IsTruncated": False, "Name": self.params["Bucket"]}

    s3_ListObjects = s3_ListObjectsV2

    # --- models: nothing is deployed

    def sagemaker_runtime_InvokeEndpoint(self, _body):
        raise NotFound(f"{NO_MODEL}{self.operation} of {self.params.get('EndpointName')}")

    sagemaker_runtime_InvokeEndpointWithResponseStream = sagemaker_runtime_InvokeEndpoint

    # --- logs

    def logs_DescribeLogStreams(self, _body):
        self.unknown = "with an empty list"
        return {"logStreams": []}

    def logs_GetLogEvents(self, _body):
        self.unknown = "with an empty list"
        return {"events": [], "nextForwardToken": MADE_UP, "nextBackwardToken": MADE_UP}


def describe_answer(answer):
    """Says what an answer is that is made up."""
    shown = str(answer)
    if "[]" in shown:
        return "with an empty list"
    return "with made-up values" if MADE_UP in shown else "with zeros and empty values"


class AccountText(str):
    """A text that contains the made-up account. As a whole it is replaced by the account's own; what the script computes from its
    parts, or from a comparison, is not."""

    def __radd__(self, other):
        return AccountText(str.__add__(other, self))


def is_computed(text, result):
    """Returns whether a result of a method depends on the digits of the account in a text."""
    pieces = result if isinstance(result, (list, tuple)) else [result]
    if text == ACCOUNT:
        return not any(isinstance(piece, str) and ACCOUNT in piece for piece in pieces)
    rest = text.replace(ACCOUNT, "\0")
    return any(isinstance(piece, str) and piece not in rest and ACCOUNT not in piece for piece in pieces)


def with_account(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(with_account, value))
    return AccountText(value) if isinstance(value, str) and ACCOUNT in value else value


def watch(name):
    """Records that the script computes with the digits of the account."""
    own = getattr(str, name, None)

    def method(self, *arguments, **options):
        text = str.__str__(self)
        result = own(text, *arguments, **options) if own else int(text)
        if result is not NotImplemented and is_of_script(sys._getframe(1).f_code.co_filename) and is_computed(text, result):
            recorder.add_unknown("computes with a part of the account ID: trainc does not know it")
        return with_account(result)

    setattr(AccountText, name, method)


for _name in "getitem add iter contains eq ne lt le gt ge hash int mod mul rmul".split():
    watch(f"__{_name}__")
for _name in dir(str):
    # The length and the class of its characters are those of every account.
    if not _name.startswith(("_", "is")) and _name not in ("maketrans", "format", "format_map"):
        watch(_name)


class Hash:
    """A digest to which the script adds data."""

    def __init__(self, digest):
        self.digest_object = digest

    def __getattr__(self, name):
        return getattr(self.digest_object, name)

    def update(self, data):
        note_digest(data)
        self.digest_object.update(data)


def note_digest(data):
    if isinstance(data, (bytes, bytearray)) and ACCOUNT.encode() in data and asker() == "script":
        recorder.add_unknown("computes a digest of the account ID: trainc does not know it")


def patch_hashes():
    """Records that the script computes a digest of the account, with `hashlib` or through `uuid`."""
    import hashlib

    for name in ("new", *hashlib.algorithms_guaranteed):
        make = getattr(hashlib, name, None)
        if make is None:
            continue

        def hashed(*arguments, make=make, **options):
            made = make(*arguments, **options)
            for data in (*arguments, *options.values()):
                note_digest(data)
            return Hash(made) if is_of_script(sys._getframe(1).f_code.co_filename) else made

        setattr(hashlib, name, hashed)


def with_defaults(value, defaults):
    """Returns a pipeline's definition with the defaults of parameters in place of `{"Get": "Parameters.X"}`, and joined texts."""
    if isinstance(value, list):
        return [with_defaults(item, defaults) for item in value]
    if not isinstance(value, dict):
        return value
    default = defaults.get(value.get("Get")) if len(value) == 1 and isinstance(value.get("Get"), str) else None
    if default is not None:
        return default
    value = {name: with_defaults(item, defaults) for name, item in value.items()}
    join = value.get("Std:Join") if len(value) == 1 else None
    if isinstance(join, dict) and all(isinstance(part, (str, int, float)) for part in join.get("Values", [None])):
        return join.get("On", "").join(str(part) for part in join["Values"])
    return value


# --- boto3 and the SageMaker SDK -------------------------------------------------------------------------------------


def local_path(path):
    """Returns the absolute path of a file of the user; None for what the script has generated in a temporary directory."""
    found = os.path.abspath(path)
    return None if found.startswith(os.path.join(recorder.directory, "")) else found


def settings_text(name, data):
    """Returns the text of settings; None for other files."""
    if not name.endswith(SETTINGS) or len(data) > MOST_SETTINGS:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def text_of_file(path):
    """Returns the text of a file with settings; None for other files."""
    try:
        with open(path, "rb") as file:
            return settings_text(str(path), file.read(MOST_SETTINGS + 1))
    except OSError:
        return None


def patch_transfer(module):
    # The AWS CRT opens sockets that no audit hook sees.
    if hasattr(module, "_should_use_crt"):
        module._should_use_crt = lambda _config: False
    upload = module.S3Transfer.upload_file

    def upload_file(self, filename, bucket, key, *args, **options):
        recorder.add("uploaded", uri=f"s3://{bucket}/{key}", file=local_path(filename), text=text_of_file(filename))
        if not os.path.exists(filename):
            # A program that was skipped may have created it.
            recorder.add("skipped", what=f"upload of {filename}, which does not exist")
            return None
        return upload(self, filename, bucket, key, *args, **options)

    module.S3Transfer.upload_file = upload_file


def patch_git(module):
    """Replaces the clone of the SDK: an empty file for each that the estimator names."""

    def git_clone_repo(git_config, entry_point, source_dir=None, dependencies=None):
        import tempfile

        clone = pathlib.Path(tempfile.mkdtemp(dir=recorder.directory))
        recorder.add("skipped", what=f"git clone {git_config['repo']}")
        recorder.clones[str(clone)] = {key: git_config.get(key) for key in ("repo", "branch", "commit")}
        entry = clone / (source_dir or ".") / entry_point
        for path in (entry, *(clone / name for name in dependencies or [])):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return {
            "entry_point": entry_point if source_dir else str(entry),
            "source_dir": str(clone / source_dir) if source_dir else None,
            "dependencies": [str(clone / name) for name in dependencies] if dependencies is not None else None,
        }

    module.git_clone_repo = git_clone_repo


def other_names(path):
    """Returns the names next to a file, those of directories with a slash."""
    with os.scandir(os.path.dirname(path)) as entries:
        names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
    return sorted(name for name in names if name != os.path.basename(path))


def patch_archive(module):
    """Records the directory of each source archive."""
    upload = module.tar_and_upload_dir

    def tar_and_upload_dir(*args, **options):
        uploaded = upload(*args, **options)
        names = ("session", "bucket", "s3_key_prefix", "script", "directory", "dependencies")
        said = {**dict(zip(names, args)), **options}
        uri, directory = str(uploaded.s3_prefix), said.get("directory")
        if uri != directory:
            # Without a directory, the archive contains the script alone.
            found = os.path.abspath(directory) if directory else os.path.dirname(os.path.abspath(said["script"]))
            git = next((clone for clone in recorder.clones if found.startswith(clone)), None)
            script = None if directory else os.path.abspath(said["script"])
            recorder.add(
                "source",
                uri=uri,
                directory=os.path.relpath(found, git) if git else found,
                script=script,
                others=[] if git or directory else other_names(script),
                dependencies=[os.path.abspath(path) for path in said.get("dependencies") or []],
                git=recorder.clones.get(git),
            )
        return uploaded

    module.tar_and_upload_dir = tar_and_upload_dir


def patch_trainer(module):
    """Records what ModelTrainer uploads for a channel: it copies the directory, without the ignored files, before. With the channel of
    its drivers, which comes last, it records what they will start."""
    create = module.ModelTrainer.create_input_data_channel
    make = module.ModelTrainer.__init__

    def create_input_data_channel(self, channel_name, data_source, *args, **options):
        channel = create(self, channel_name, data_source, *args, **options)
        uri = getattr(getattr(channel.data_source, "s3_data_source", None), "s3_uri", None)
        if isinstance(data_source, str) and os.path.exists(data_source):
            recorder.add("channel", uri=uri, path=local_path(data_source))
        if channel_name == module.SM_DRIVERS and self.source_code:
            add_trainer(uri, self.source_code, self.distributed)
        return channel

    def init(self, *args, **options):
        # The session of the SDK v2 is of another class, and says nothing about the job: no call is sent.
        if not isinstance(options.get("sagemaker_session"), (module.Session, type(None))):
            del options["sagemaker_session"]
        make(self, *args, **with_variables(options))

    module.ModelTrainer.create_input_data_channel = create_input_data_channel
    module.ModelTrainer.__init__ = init


def add_trainer(uri, code, launcher):
    """Records the source and the launcher of a ModelTrainer."""

    def said(thing, name):
        value = getattr(thing, name, None)
        return None if value is None else [str(one) for one in value] if isinstance(value, list) else str(value)

    source = said(code, "source_dir")
    smp = getattr(launcher, "smp", None)
    recorder.add(
        "trainer",
        uri=uri,
        source=source,
        directory=local_path(source) if source and os.path.isdir(source) else None,
        entry=said(code, "entry_script"),
        command=said(code, "command"),
        arguments=said(code, "args") or [],
        requirements=said(code, "requirements"),
        launcher=type(launcher).__name__ if launcher else None,
        processes=getattr(launcher, "process_count_per_node", None),
        options=said(launcher, "mpi_additional_options") or [],
        smp=smp.model_dump(exclude_none=True) if smp else None,
    )


def with_variables(options):
    """Returns the arguments of an estimator with a marked text for each variable of its environment that is None, as for a key that is
    not set: no request can have it."""
    variables = options.get("environment")
    if not isinstance(variables, dict) or None not in variables.values():
        return options
    known = {name: MadeUp(f"{MADE_UP}-{name}") if value is None else value for name, value in variables.items()}
    return {**options, "environment": known}


def patch_estimator(module):
    make = module.EstimatorBase.__init__

    def init(self, *args, **options):
        make(self, *args, **with_variables(options))

    module.EstimatorBase.__init__ = init


def patch_telemetry(module):
    module._send_telemetry_request = lambda *_args, **_options: None


# --- tokens: what a script takes from its environment or asks for is a marked text, of which a manifest makes a secret


def patch_environment():
    """Answers with a marked text where the script reads a variable that is not set, unless it handles that itself."""
    kind = type(os.environ)
    get = kind.__getitem__

    def getitem(self, key):
        try:
            return get(self, key)
        except KeyError:
            frame = sys._getframe(1)
            filename = frame.f_code.co_filename
            if not isinstance(key, str) or filename == __file__ or not is_of_script(filename):
                raise
            if any(first <= frame.f_lineno <= last for first, last in handled_lines(filename)):
                raise
            return MadeUp(f"{MADE_UP}-{key}")

    kind.__getitem__ = getitem


@functools.lru_cache(maxsize=None)
def handled_lines(filename):
    """Returns the first and last lines of the statements of a file in which the script handles a missing key."""
    try:
        with tokenize.open(filename) as file:
            body = parse(file.read(), filename)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []
    out = []
    for node in ast.walk(ast.Module(body, [])):
        is_handled = isinstance(node, ast.Try) and any(handles_missing_key(one.type) for one in node.handlers)
        if is_handled or isinstance(node, (ast.With, ast.AsyncWith)) and any(is_suppress(one.context_expr) for one in node.items):
            out.append((node.body[0].lineno, node.body[-1].end_lineno))
    return out


def handles_missing_key(kind):
    """Returns whether a handler of a kind of exceptions is that of a missing key, too; None is that of all."""
    if isinstance(kind, ast.Tuple):
        return any(handles_missing_key(one) for one in kind.elts)
    return kind is None or getattr(kind, "id", None) in ("KeyError", "LookupError", "Exception", "BaseException")


def token(*_args, **_options):
    """Answers a question for a token."""
    return MadeUp(f"{MADE_UP}-token")


def nothing(*_args, **_options):
    """Logs in nowhere."""


def patch_getpass(module):
    module.getpass = token


def patch_input():
    """Answers where the script asks its user: there is none."""
    ask = builtins.input

    def answer(*args):
        is_asked = is_of_script(sys._getframe(1).f_code.co_filename)
        return MadeUp(f"{MADE_UP}-input") if is_asked else ask(*args)

    builtins.input = answer


def patch_token(module):
    own = module.get_token
    module.get_token = lambda: own() or token()


def patch_login(module):
    for name in ("login", "notebook_login", "interpreter_login"):
        setattr(module, name, nothing)


# Modules that scripts only ask for tokens, with what they have where they are not installed.
STAND_INS = {
    "dotenv": {"load_dotenv": nothing},
    "google": {},
    "google.colab": {},
    "google.colab.userdata": {"get": token},
    "huggingface_hub": {
        "HfFolder": type("HfFolder", (), {"get_token": staticmethod(token), "save_token": staticmethod(nothing)}),
        **{name: nothing for name in ("login", "notebook_login", "interpreter_login")},
        "get_token": token,
    },
}


class StandIns:
    """Finds the modules of STAND_INS for the script, after all other finders."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in STAND_INS or asker() != "script":
            return None
        return importlib.machinery.ModuleSpec(name, StandIns, is_package=True)

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.__dict__.update(STAND_INS[module.__name__])


# Module -> what is done after it was imported.
PATCHES = {
    "botocore.endpoint": patch_endpoint,
    "botocore.client": patch_client,
    "botocore.session": patch_session,
    "botocore.validate": patch_validation,
    "botocore.waiter": patch_waiter,
    "boto3.s3.transfer": patch_transfer,
    "multiprocessing.popen_forkserver": patch_spawn,
    "multiprocessing.popen_spawn_posix": patch_spawn,
    "sagemaker.git_utils": patch_git,
    "sagemaker.fw_utils": patch_archive,
    "sagemaker.estimator": patch_estimator,
    "getpass": patch_getpass,
    "huggingface_hub.utils._auth": patch_token,
    "huggingface_hub._login": patch_login,
    "sagemaker.train.model_trainer": patch_trainer,
    "sagemaker.modules.train.model_trainer": patch_trainer,
    "sagemaker.telemetry.telemetry_logging": patch_telemetry,
    "sagemaker.core.telemetry.telemetry_logging": patch_telemetry,
}


class Finder:
    """Finds the modules of PATCHES, and patches each after its import."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        patch = PATCHES.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module
        return spec


# --- the script -----------------------------------------------------------------------------------------------------


class Lines(list):
    """Lines of a program's output, as IPython returns them."""

    l = property(list)
    n = s = property(lambda self: "\n".join(self))


class Shell:
    """Replaces IPython: `jupyter nbconvert --to script` writes magics as calls of it."""

    def __init__(self, script):
        self.script = script
        self.user_ns = script.namespace

    def skip(self, text):
        recorder.add("skipped", what=text[:200])

    def expand(self, command):
        """Replaces variables, `{name}` and `$name`, by their values."""

        def value(found):
            name = found[1] or found[2]
            return str(self.user_ns[name]) if name in self.user_ns else found[0]

        return re.sub(r"\{(\w+)\}|\$(\w+)", value, command)

    def run(self, command):
        """Returns what a program prints; None if it is skipped."""
        import subprocess

        expanded = self.expand(command)
        if not is_allowed(expanded):
            self.skip(f"!{command}")
            return None
        done = subprocess.run(words_of(expanded), capture_output=True, text=True, check=False)
        return done.stdout

    def system(self, command):
        print(self.run(command) or "", end="")

    def getoutput(self, command, *_args, **_options):
        printed = self.run(command)
        return MadeUpLines([MADE_UP]) if printed is None else Lines(printed.splitlines())

    def run_line_magic(self, name, line="", *_args, **_options):
        if name == "cd":
            os.chdir(os.path.expanduser(self.expand(line.strip()) or "~"))
        elif name in ("env", "set_env") and "=" in line:
            key, value = line.split("=", 1)
            os.environ[key.strip()] = self.expand(value.strip())
        elif name in ("time", "timeit"):
            self.script.run(line, "<magic>")
        else:
            self.skip(f"%{name} {line}".rstrip())

    magic = run_line_magic

    def run_cell_magic(self, name, line="", cell="", *_args, **_options):
        if name in ("time", "timeit", "capture", "prun"):
            self.script.run(cell, "<magic>")
        elif name in ("writefile", "file"):
            words = self.expand(line).split()
            with open(words[-1], "a" if "-a" in words else "w", encoding="utf-8") as file:
                file.write(cell)
        else:
            self.skip(f"%%{name} {line}".rstrip())


# The line at which `jupyter nbconvert --to script` begins a cell.
CELL = re.compile(r"# In\[[ \d]*\]:\s*$")
# Programs that IPython runs without `!` or `%`.
PLAIN_PROGRAMS = {"pip", "pip3", "conda", "mamba", "ls", "cp", "mv", "rm", "mkdir", "rmdir", "cat"}


def without_magic(lines, at):
    """Replaces the command of IPython that begins at a line by a call; lines keep their numbers. Returns whether there is one."""
    found = re.match(r"(\s*)(?:([\w., ]+)=\s*)?(%%|[!%])\s*(\S.*)$", lines[at])
    if found is None:
        found = re.match(r"(\s*)()()((?:%s)\s+[^=(\s].*)$" % "|".join(PLAIN_PROGRAMS), lines[at])
    if found is None:
        return False
    indent, targets, sign, text = found.groups()
    end = at + 1
    if sign == "%%":
        while end < len(lines) and not CELL.match(lines[end]):
            end += 1
        cell = "\n".join(lines[at + 1 : end]).rstrip("\n") + "\n"
    else:
        while lines[end - 1].endswith("\\") and end < len(lines):
            text = text.rstrip("\\") + lines[end].strip()
            end += 1
    name, _, rest = text.partition(" ")
    call = {
        "%%": lambda: f"run_cell_magic({name!r}, {rest!r}, {cell!r})",
        "%": lambda: f"run_line_magic({name!r}, {rest!r})",
    }.get(sign, lambda: f"{'getoutput' if targets else 'system'}({text!r})")()
    lines[at:end] = [f"{indent}{targets + '= ' if targets else ''}get_ipython().{call}", *[""] * (end - at - 1)]
    return True


def parse(text, name):
    """Returns the statements of a script. Commands of IPython become calls, and imports from `__future__`, which may begin any
    cell of a notebook, come first."""
    lines = text.split("\n")
    while True:
        try:
            body = ast.parse("\n".join(lines), name).body
            break
        except SyntaxError as error:
            # The error may be at the end of the line before, or in the text below a command.
            at = min(error.lineno or 1, len(lines))
            if not any(without_magic(lines, line) for line in range(min(at, len(lines) - 1), -1, -1)):
                raise

    docstring = body[:1] if ast.get_docstring(ast.Module(body, []), clean=False) is not None else []
    return docstring + sorted(body[len(docstring) :], key=lambda statement: not is_future(statement))


def is_future(statement):
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def cells(text):
    """Returns the cells of an exported notebook, each after as many empty lines as stand before it."""
    lines = text.split("\n")
    starts = [0, *[at for at, line in enumerate(lines) if CELL.match(line)], len(lines)]
    return ["\n" * start + "\n".join(lines[start:end]) for start, end in zip(starts, starts[1:])]


class MadeUp(str):
    """A text in place of a value that a skipped statement would have set. A script that computes with it fails, as its length
    or truth would look like a value; libraries see a text."""

    def __str__(self):
        return self

    def __getattr__(self, name):
        raise AttributeError(f"`{self}` was not set, and has no `{name}`")


class MadeUpLines(Lines):
    """The output of a program that did not run: its first line is a marked text, and their number is not known."""


def refuse(kind, name):
    """Makes a method fail if the script calls it."""
    own = getattr(kind, name, None)

    def method(self, *arguments, **options):
        caller = sys._getframe(1)
        is_text = name == "__format__" and arguments == ("",)
        if not is_text and is_of_script(caller.f_code.co_filename):
            error = ValueError(f"`{str.__str__(self) if isinstance(self, str) else MADE_UP}` was not set")
            if recorder.skipper:
                recorder.skipper.refused(error, caller)
            raise error
        return own(self, *arguments, **options) if own else True

    setattr(kind, name, method)


def is_of_script(filename):
    """Returns whether code belongs to the script: to its file, its cells, or a module beside it."""
    known = recorder.script_files
    if filename not in known:
        beside = os.path.dirname(os.path.abspath(filename)) == recorder.script_directory
        known[filename] = filename in ("<magic>", "<string>") or beside and not filename.startswith("<")
    return known[filename]


for _name in "len iter bool contains getitem mul rmul mod eq ne lt le gt ge hash format".split():
    refuse(MadeUp, f"__{_name}__")
for _name in dir(str):
    # What they return contains the text.
    if not _name.startswith("_") and _name not in ("format", "join"):
        refuse(MadeUp, _name)
for _name in "len iter bool contains eq ne".split():
    refuse(MadeUpLines, f"__{_name}__")


class Skipper:
    """Changes a script so that each statement is skipped if it fails, also in loops, branches and procedures. What it would have
    set is marked. A function that returns a value or raises is one with the statement that calls it."""

    # Failures of a statement after which the loop around it ends.
    MOST_FAILURES = 1000

    def __init__(self, path):
        self.path = str(path)
        # The line of the magic whose cell is changed; None for the script.
        self.line = None
        # Number of the script's own `try` statements that run in a thread: their handlers come first.
        self.running = threading.local()
        self.failures = {}
        builtins.__trainc_skip__ = self.skip
        builtins.__trainc_guard__ = self.guard
        builtins.__trainc_made_up__ = lambda name: MadeUp(f"{MADE_UP}-{name}")

    def guard(self, change):
        self.running.guards = getattr(self.running, "guards", 0) + change

    def is_guarded(self):
        return getattr(self.running, "guards", 0) > 0

    def skip(self, first, last, builds):
        """Records the error that is handled, at lines of the script, or raises it again."""
        if self.is_guarded() or self.ignore(sys.exc_info()[1], first, last, builds) > self.MOST_FAILURES:
            raise

    def refused(self, error, frame):
        """Records a computation with a marked text whose error the script may handle."""
        if self.is_guarded() and frame.f_code.co_filename == self.path:
            self.ignore(error, frame.f_lineno, frame.f_lineno)

    def ignore(self, error, first, last, builds=False):
        """Records the first error of these lines, and returns the number of their errors."""
        count = self.failures[first, last] = self.failures.get((first, last), 0) + 1
        if count == 1:
            recorder.add("ignored", message=describe_error(error), line=first, last=last, builds=builds)
        return count

    def change(self, statements):
        return [self.wrap(self.change_inside(statement)) for statement in statements]

    def change_inside(self, node):
        """Changes the statements below a statement."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_procedure(node):
            return node
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(is_suppress(one.context_expr) for one in node.items):
            return node
        for part in [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(part, field, None)
                if inner and field == "orelse" and isinstance(node, ast.If) and isinstance(inner[0], ast.If):
                    # `elif`: blocks nest 20 deep at most.
                    inner[0] = self.change_inside(inner[0])
                    inner[1:] = self.change(inner[1:])
                elif isinstance(inner, list) and inner:
                    setattr(part, field, self.change(inner))
        leaves = (ast.Return, ast.Break, ast.Continue)
        ends = [one for inner in getattr(node, "finalbody", []) for one in nodes_in_scope(inner)]
        if getattr(node, "handlers", None) or any(isinstance(one, leaves) for one in ends):
            leave = ast.Try(node.body, [], [], statements_of("__trainc_guard__(-1)", node))
            node.body = [*statements_of("__trainc_guard__(1)", node), ast.copy_location(leave, node)]
        return node

    def wrap(self, node):
        """Returns a statement that skips a statement if it fails."""
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        plain = (ast.Break, ast.Continue, ast.Pass, ast.Global, ast.Nonlocal, ast.Return)
        if is_text or is_future(node) or isinstance(node, plain):
            return node
        first = last = self.line or node.lineno
        if (hasattr(node, "body") or hasattr(node, "cases")) and self.line is None:
            last = getattr(node, "end_lineno", None) or first
        body = [*statements_of(f"__trainc_skip__({first}, {last}, {builds_job(node)})", node), *marks(node)]
        handler = ast.ExceptHandler(type=ast.Name("Exception", ast.Load()), name=None, body=body)
        return ast.fix_missing_locations(ast.copy_location(ast.Try([node], [handler], [], []), node))


# What a call that builds a training job is called: the classes of the SDKs, and their methods.
BUILDERS = re.compile("(ModelTrainer|Estimator|HyperparameterTuner|create_training_job|from_recipe|from_jumpstart_config)$")
FRAMEWORKS = {"PyTorch", "HuggingFace", "TensorFlow", "XGBoost", "SKLearn", "MXNet", "Chainer"}


def builds_job(node):
    """Returns whether a statement builds a training job."""
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = [getattr(one, "attr", None) or getattr(one, "id", None) or "" for one in calls]
    return any(BUILDERS.search(name) or name in FRAMEWORKS for name in names)


def is_procedure(node):
    """Returns whether a function is called for what it does, and raises nothing itself: the failures of others are those of the
    statement that calls them."""
    if isinstance(node, ast.AsyncFunctionDef) or node.decorator_list or re.fullmatch("__.*__", node.name):
        return False
    inner = [one for statement in node.body for one in nodes_in_scope(statement)]
    others = (ast.Yield, ast.YieldFrom, ast.Raise, ast.Assert)
    return not any(isinstance(one, others) or (isinstance(one, ast.Return) and one.value) for one in inner)


def is_suppress(node):
    """Returns whether an expression is a call of `contextlib.suppress`."""
    called = getattr(node, "func", None)
    return "suppress" in (getattr(called, "id", None), getattr(called, "attr", None))


# Their names are not those of the function around them.
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def nodes_in_scope(node):
    """Returns a node and what is below it in its scope."""
    yield node
    if not isinstance(node, SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from nodes_in_scope(child)


def marks(node):
    """Returns the statements that mark what a statement, or a branch of it, would have set."""
    if isinstance(node, ast.Import):
        names = [one.asname or one.name.split(".")[0] for one in node.names]
        return [mark for name in names for mark in mark_new(name, node)]
    if isinstance(node, ast.ImportFrom):
        names = [one.asname or one.name for one in node.names if one.name != "*"]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names = [node.name]
    else:
        names = []
    out = [mark for name in names for mark in mark_name(name, node)]
    seen = set(names)
    for one in nodes_in_scope(node):
        if isinstance(getattr(one, "ctx", None), ast.Store):
            if isinstance(one, ast.Name) and one.id not in seen:
                seen.add(one.id)
                out += mark_name(one.id, node)
            elif isinstance(one, (ast.Subscript, ast.Attribute)):
                out += mark_item(one, node)
    return out


def statements_of(text, node):
    """Returns parsed statements, at the location of a node."""
    body = ast.parse(text).body
    for statement in body:
        for one in ast.walk(statement):
            ast.copy_location(one, node)
    return body


def mark_name(name, node):
    return statements_of(f"{name} = __trainc_made_up__({name!r})", node)


def mark_new(name, node):
    """Marks a name that is not set yet: another import may have set it."""
    return statements_of(f"try:\n    {name}\nexcept NameError:\n    {name} = __trainc_made_up__({name!r})", node)


def mark_item(target, node):
    """Marks an item or attribute."""
    label = getattr(target, "attr", None) or getattr(target, "slice", None)
    while isinstance(label, ast.AST):
        label = getattr(label, "value", None)
    mark = statements_of(f"try:\n    x = __trainc_made_up__({str(label)!r})\nexcept Exception:\n    pass", node)
    mark[0].body[0].targets = [target]
    return mark


class Script:
    """The script, whose statements are skipped if they fail, if that is asked for."""

    def __init__(self, path, namespace, goes_on):
        self.path = path
        self.namespace = namespace
        self.skipper = recorder.skipper = Skipper(path) if goes_on else None
        self.flags = 0

    def run(self, text, name):
        try:
            self.run_statements(text, name)
        except SyntaxError:
            if not self.skipper:
                raise
            # Nothing has run: a cell of a notebook is no Python.
            for part in cells(text):
                self.run_cell(part, name)

    def run_cell(self, text, name):
        """Runs a cell, or skips it if it is no Python."""
        try:
            self.run_statements(text, name)
        except SyntaxError as error:
            last = len(text.rstrip("\n").split("\n"))
            self.skipper.ignore(error, len(text) - len(text.lstrip("\n")) + 1, last)

    def run_statements(self, text, name):
        import __future__

        statements = parse(text, name)
        for statement in statements:
            if is_future(statement):
                for alias in statement.names:
                    self.flags |= getattr(__future__, alias.name).compiler_flag
        if self.skipper:
            self.skipper.line = (script_lines(self.path) or [1])[-1] if name != str(self.path) else None
            statements = [self.changed(*both, name) for both in zip(statements, parse(text, name))]
            self.skipper.line = None
        exec(self.compiled(statements, name), self.namespace)

    def changed(self, statement, same, name):
        """Returns a changed statement; one that nests too deep for Python is only skipped as a whole."""
        changed = self.skipper.wrap(self.skipper.change_inside(statement))
        try:
            self.compiled([changed], name)
        except SyntaxError:
            return self.skipper.wrap(same)
        return changed

    def compiled(self, statements, name):
        return compile(ast.Module(statements, []), name, "exec", flags=self.flags, dont_inherit=True)


def script_lines(script):
    """Returns the lines of the script that led to the caller."""
    import traceback

    return [frame.lineno for frame in traceback.extract_stack() if frame.filename == str(script)]


def traceback_lines(error, script):
    """Returns the lines of the script that led to an error: those that called this function, and those of its traceback."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return script_lines(script) + [frame.lineno for frame in frames if frame.filename == str(script)]


def describe_error(error):
    """Returns type and text of an error in one line; botocore names the parameter on the second."""
    import traceback

    return " ".join(traceback.format_exception_only(type(error), error)[-1].split())[:600]


def missing_result(error):
    """Returns the message about what only an account has, if that is why the script could not go on; else None."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        answer = getattr(error, "response", None)
        message = answer.get("Error", {}).get("Message", "") if isinstance(answer, dict) else ""
        if message.startswith((NO_OBJECTS, NO_MODEL)):
            return message
        error = error.__cause__ or error.__context__
    return None


def report(error, script):
    """Records a failure: its traceback without the frames of this file, and the last line of the script in it."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in (__file__, ast.__file__)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    lines += traceback.format_exception_only(type(error), error)
    own = traceback_lines(error, script)
    line = own[-1] if own else getattr(error, "lineno", None)
    missing = missing_result(error)
    if missing is not None and recorder.requests:
        # After training, notebooks deploy the model and read its output.
        recorder.add("stopped", what=missing, line=line)
        return
    recorder.add("failed", message=describe_error(error), line=line, traceback="".join(lines))


def main():
    global recorder
    _, path, seconds, on_failure, script, *arguments = sys.argv
    recorder = Recorder(path)
    hang = open(f"{path}.hang", "w", encoding="utf-8")
    script = pathlib.Path(script).resolve()
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", SAGEMAKER_SUPPRESS_V2_WARNING="1")
    sys.meta_path.insert(0, Finder)
    patch_programs()
    patch_sleep()
    patch_hashes()
    patch_input()
    patch_environment()
    sys.meta_path.append(StandIns)
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.parent)
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    recorder.script_directory = os.path.dirname(os.path.abspath(script))
    recorder.script = str(script)
    running = Script(script, module.__dict__, on_failure == "go-on")
    shell = Shell(running)
    builtins.get_ipython = lambda: shell
    builtins.display = print
    sys.addaudithook(audit)
    recorder.add("started", python=sys.version.split()[0], executable=sys.executable)
    faulthandler.dump_traceback_later(float(seconds), exit=True, file=hang)
    try:
        with tokenize.open(script) as file:
            text = file.read()
        running.run(text, str(script))
    except SystemExit as end:
        if end.code not in (None, 0):
            report(end, script)
    except BaseException as error:  # noqa: BLE001: every failure of the script is reported
        report(error, script)
    recorder.add("ended")
    sys.stdout.flush()
    # Threads of the script do not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
