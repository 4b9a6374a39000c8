"""moto's S3 with errors that moto lacks: buckets of other owners or regions, wrong checksums, unknown uploads."""

import base64
import hashlib
import zlib

from moto.s3.models import s3_backends

from .wire import Refused


class Storage:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        bucket, _ = call.bucket_key
        owner = call.headers.get("x-amz-expected-bucket-owner")
        foreign = bucket in self.world.settings.foreign_buckets
        if owner is not None and (foreign or owner != self.world.account):
            raise Refused("AccessDenied", "Access Denied", 403)
        found = s3_backends[self.world.account]["aws"].buckets.get(bucket)
        if found is not None and call.operation != "CreateBucket" and found.region_name != call.region:
            raise Refused(
                "PermanentRedirect",
                "The bucket you are attempting to access must be addressed using the specified endpoint.",
                301,
                region=found.region_name,
            )
        upload = call.query.get("uploadId")
        upload = upload[0] if isinstance(upload, list) else upload
        if found is not None and upload is not None and upload not in found.multiparts:
            raise Refused("NoSuchUpload", "The specified multipart upload does not exist.", 404)
        self.checksum(call)
        if call.operation == "HeadObject" and self.world.settings.hidden_checksums:
            if call.headers.get("x-amz-checksum-mode") == "ENABLED":
                raise Refused("AccessDenied", "not authorized to perform: kms:Decrypt", 403)
        if call.operation == "PutObject" and "x-amz-checksum-sha256" in call.headers:
            # moto keeps a checksum only where this header names its algorithm
            call.environ["HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM"] = "SHA256"
        if call.operation == "PutObject" and call.headers.get("if-none-match") != "*":
            self.refuse_overwriting(found, call)
        if call.operation == "CompleteMultipartUpload" and call.headers.get("if-none-match") != "*":
            self.refuse_overwriting(found, call)
        return None

    def refuse_overwriting(self, bucket, call):
        _, key = call.bucket_key
        if self.world.settings.no_overwriting and bucket is not None and key in bucket.keys:
            raise Refused("AccessDenied", "with an explicit deny in a resource-based policy", 403)

    @staticmethod
    def checksum(call):
        if "aws-chunked" in call.headers.get("content-encoding", ""):
            return
        sent = call.headers.get("x-amz-checksum-sha256")
        if sent is not None and call.operation in ("PutObject", "UploadPart"):
            if base64.b64decode(sent) != hashlib.sha256(call.body).digest():
                raise Refused("BadDigest", "The SHA256 you specified did not match the calculated checksum.")
        sent = call.headers.get("x-amz-checksum-crc32")
        if sent is not None and call.operation in ("PutObject", "UploadPart"):
            if base64.b64decode(sent) != zlib.crc32(call.body).to_bytes(4, "big"):
                raise Refused("BadDigest", "The CRC32 you specified did not match the calculated checksum.")
