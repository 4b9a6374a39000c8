"""Requests parsed from HTTP, and error responses in each protocol."""

import dataclasses
import json
import urllib.parse
import uuid

QUERY = ("iam", "sts", "ec2")


@dataclasses.dataclass
class Call:
    """A parsed request: `sagemaker:CreateTrainingJob` and its body."""

    service: str
    operation: str
    region: str
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes
    environ: dict

    @property
    def name(self):
        return f"{self.service}:{self.operation}"

    @property
    def json(self):
        return json.loads(self.body or b"{}")

    @property
    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def invocation(self):
        """Returns an ID that all attempts of a call share: the SDK's invocation ID, otherwise a new one."""
        return self.headers.get("amz-sdk-invocation-id") or uuid.uuid4().hex

    @property
    def bucket_key(self):
        bucket, _, key = self.path.lstrip("/").partition("/")
        return urllib.parse.unquote(bucket), urllib.parse.unquote(key)


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes


class Refused(Exception):
    """An error response of the service, with its wire code."""

    def __init__(self, code, message, status=400, **members):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.members = code, message, status, members


def s3_operation(method, bucket, key, query):
    if not bucket:
        return "ListBuckets"
    if not key:
        for name, operation in (
            ("uploads", "ListMultipartUploads"),
            ("location", "GetBucketLocation"),
            ("delete", "DeleteObjects"),
            ("encryption", "GetBucketEncryption"),
            ("versioning", "GetBucketVersioning"),
        ):
            if name in query:
                return operation
        return {"HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}.get(method, "ListObjectsV2")
    if "uploadId" in query:
        return {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}.get(
            method, "ListParts"
        )
    if "uploads" in query:
        return "CreateMultipartUpload"
    return {"PUT": "PutObject", "HEAD": "HeadObject", "DELETE": "DeleteObject", "POST": "PostObject"}.get(
        method, "GetObject"
    )


def understand(environ, body):
    headers = {k[5:].lower().replace("_", "-"): v for k, v in environ.items() if k.startswith("HTTP_")}
    path = environ.get("RAW_URI", environ.get("REQUEST_URI", environ["PATH_INFO"])).split("?")[0]
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    scope = headers.get("authorization", "").split("Credential=")[-1].split(",")[0].split("/")
    region, service = (scope[2], scope[3].lower()) if len(scope) >= 5 else ("us-east-1", "s3")
    if "x-amz-target" in headers:
        operation = headers["x-amz-target"].rpartition(".")[2]
    elif service in QUERY:
        operation = dict(urllib.parse.parse_qsl(body.decode())).get("Action") or query.get("Action", "?")
    elif service == "s3":
        bucket, _, key = path.lstrip("/").partition("/")
        operation = s3_operation(environ["REQUEST_METHOD"], bucket, key, query)
    else:
        operation = path.rpartition("/")[2]
    return Call(service, operation, region, environ["REQUEST_METHOD"], path, query, headers, body, environ)


def ok(value):
    return Answer(200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(value).encode())


def refusal(call, no):
    """Renders the error in the protocol of the requested service."""
    request = uuid.uuid4().hex
    if call.service == "s3":
        text = f"<Error><Code>{no.code}</Code><Message>{escape(no.message)}</Message><RequestId>{request}</RequestId></Error>"
        body = b"" if call.method == "HEAD" else text.encode()
        where = {"x-amz-bucket-region": no.members["region"]} if "region" in no.members else {}
        return Answer(no.status, {"Content-Type": "application/xml", "x-amz-request-id": request, **where}, body)
    if call.service == "ec2":
        text = (
            f"<Response><Errors><Error><Code>{no.code}</Code><Message>{escape(no.message)}</Message></Error></Errors>"
            f"<RequestID>{request}</RequestID></Response>"
        )
        return Answer(no.status, {"Content-Type": "text/xml"}, text.encode())
    if call.service in QUERY:
        space = "https://iam.amazonaws.com/doc/2010-05-08/"
        text = (
            f'<ErrorResponse xmlns="{space}"><Error><Type>Sender</Type><Code>{no.code}</Code>'
            f"<Message>{escape(no.message)}</Message></Error><RequestId>{request}</RequestId></ErrorResponse>"
        )
        return Answer(no.status, {"Content-Type": "text/xml", "x-amzn-requestid": request}, text.encode())
    body = {"__type": no.code, "message": no.message, **no.members}
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-requestid": request}
    return Answer(no.status, headers, json.dumps(body).encode())


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


THROTTLED = {
    "iam": ("Throttling", 400),
    "sts": ("Throttling", 400),
    "ec2": ("RequestLimitExceeded", 503),
    "s3": ("SlowDown", 503),
}
EXPIRED = {"iam": ("ExpiredToken", 403), "sts": ("ExpiredToken", 403), "s3": ("ExpiredToken", 400),
           "ec2": ("RequestExpired", 400)}
DENIED = {"iam": ("AccessDenied", 403), "sts": ("AccessDenied", 403), "s3": ("AccessDenied", 403),
          "ec2": ("UnauthorizedOperation", 403)}
BROKEN = {"iam": "ServiceFailure", "s3": "ServiceUnavailable", "ec2": "Unavailable"}


def throttled(call):
    code, status = THROTTLED.get(call.service, ("ThrottlingException", 400))
    return Refused(code, "Rate exceeded", status)


def expired(call):
    code, status = EXPIRED.get(call.service, ("ExpiredTokenException", 400))
    return Refused(code, "The security token included in the request is expired", status)


def denied(call, account):
    code, status = DENIED.get(call.service, ("AccessDeniedException", 400))
    return Refused(
        code,
        f"User: arn:aws:iam::{account}:user/operator is not authorized to perform: {call.name} "
        f"because no identity-based policy allows the {call.name} action",
        status,
    )


def broken(call, status=503):
    return Refused(BROKEN.get(call.service, "InternalServerError"), "The service is unavailable. Try again.", status)
