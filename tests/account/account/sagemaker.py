"""SageMaker training jobs: unique names, status transitions over time, and complete requests."""

import json
import re
import time
import urllib.parse

from moto.iam.models import iam_backends
from moto.s3.models import s3_backends

from .wire import Refused, ok
from .world import page

FINAL = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")
STATUS = {"MaxRuntimeExceeded": "Stopped", "MaxWaitTimeExceeded": "Stopped", "Stopping": "Stopping"}
MESSAGE = {
    "Pending": "Waiting for capacity",
    "Starting": "Preparing the instances for training",
    "Downloading": "Downloading the training image",
    "Training": "Training image download completed. Training in progress.",
    "Uploading": "Uploading generated training model",
    "Completed": "Training job completed",
    "Interrupted": "Training job interrupted: the capacity was reclaimed",
    "Stopping": "Stopping the training job",
    "Stopped": "Training job stopped",
    "Failed": "Training job failed",
}
# The wording of public logs; trainc retries some of these errors for a while.
ASSUME = (
    "Could not assume role {}. Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to "
    "assume the role."
)


class Job:
    def __init__(self, request, arn, settings):
        self.request, self.arn = request, arn
        self.steps = list(settings.job_steps)
        self.reason = settings.failure_reason
        self.log_lines, self.log_seconds, self.log_text = settings.log_lines, settings.log_seconds, settings.log_text
        self.stopping_reads = settings.stopping_reads
        self.lag = settings.read_lag
        self.created = time.time()
        self.began = None
        self.trained = None
        self.ended = None
        self.modified = self.created
        self.transitions = []
        self.fresh = True
        self.enter(self.steps.pop(0))

    @property
    def secondary(self):
        return self.transitions[-1]["Status"]

    @property
    def status(self):
        if self.secondary in ("Completed", "Failed", "Stopped"):
            return self.secondary
        return STATUS.get(self.secondary, "InProgress")

    def enter(self, step):
        now = time.time()
        if self.transitions and self.transitions[-1]["Status"] == step:
            return
        if self.transitions:
            self.transitions[-1]["EndTime"] = now
        self.transitions.append({"Status": step, "StartTime": now, "StatusMessage": MESSAGE.get(step, step)})
        self.modified = now
        # Billed from the download on: TrainingStartTime is earlier than the first line of the log.
        if step in ("Downloading", "Training") and self.began is None:
            self.began = now
        if step == "Training" and self.trained is None:
            self.trained = now
        if step in FINAL:
            self.transitions[-1]["EndTime"] = now
            self.ended = now

    def read(self):
        """Handles one DescribeTrainingJob: each call after the first advances the job by one step."""
        if self.fresh:
            self.fresh = False
        elif self.status == "Stopping":
            self.stopping_reads -= 1
            if self.stopping_reads <= 0:
                self.enter("Stopped")
        elif self.ended is None and self.steps:
            self.enter(self.steps.pop(0))

    def stop(self):
        if self.ended is None:
            self.enter("Stopping")
            self.steps = []

    def instances(self):
        return self.request.get("ResourceConfig", {}).get("InstanceCount", 1)


class SageMaker:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        handler = getattr(self, "do_" + call.operation, None)
        return None if handler is None else ok(handler(call.json, call.region))

    def do_CreateTrainingJob(self, request, region):
        name = request["TrainingJobName"]
        arn = f"arn:aws:sagemaker:{region}:{self.world.account}:training-job/{name}"
        if text := re.search(r"\$\{[^}]*\}", json.dumps(request)):
            raise Refused("ValidationException", f"the request holds a placeholder: {text[0]}")
        if (region, name) in self.world.jobs:
            raise Refused(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, and a training job with this "
                f"name already exists ({arn})",
            )
        self.role(request)
        self.channels(request, region)
        self.limits(request, region)
        job = Job(request, arn, self.world.settings)
        self.source(request, job)
        self.world.jobs[region, name] = job
        self.world.tags[arn] = {t["Key"]: t["Value"] for t in request.get("Tags", [])}
        return {"TrainingJobArn": arn}

    def role(self, request):
        arn = request["RoleArn"]
        name = arn.rpartition("/")[2]
        role = next((r for r in iam_backends[self.world.account]["aws"].roles.values() if r.name == name), None)
        left = self.world.role_lag.get(name, 0)
        if left > 0:
            self.world.role_lag[name] = left - 1
        if role is None or role.arn != arn or left > 0:
            raise Refused("ValidationException", ASSUME.format(arn))
        trust = json.loads(urllib.parse.unquote(role.assume_role_policy_document or "{}"))
        principals = [s.get("Principal", {}).get("Service", []) for s in trust.get("Statement", [])]
        if not any("sagemaker.amazonaws.com" in ([p] if isinstance(p, str) else p) for p in principals):
            raise Refused("ValidationException", ASSUME.format(arn))
        if not role.policies and not role.managed_policies:
            path = request["OutputDataConfig"]["S3OutputPath"]
            raise Refused("ValidationException", f"Access denied to OutputDataConfig S3 bucket: {path}")

    def channels(self, request, region):
        for channel in request.get("InputDataConfig", []):
            system = channel["DataSource"].get("FileSystemDataSource")
            if system is None:
                continue
            found = self.world.file_systems.get((region, system["FileSystemId"]))
            if found is None:
                raise Refused("ValidationException", f"File system {system['FileSystemId']} does not exist.")
            described = found["described"]
            if described["Lifecycle"] not in ("AVAILABLE", "UPDATING"):
                raise Refused(
                    "ValidationException",
                    f"File system {system['FileSystemId']} is {described['Lifecycle']}, it must be AVAILABLE.",
                )
            mount = "/" + described["LustreConfiguration"]["MountName"]
            if system["DirectoryPath"] != mount and not system["DirectoryPath"].startswith(mount + "/"):
                raise Refused("ValidationException", f"DirectoryPath must begin with {mount}.")
            if "VpcConfig" not in request:
                raise Refused("ValidationException", "FileSystemDataSource needs VpcConfig.")
            for link in self.world.associations.values():
                if link["described"]["FileSystemId"] == system["FileSystemId"] and (
                    link["described"]["Lifecycle"] == "CREATING"
                ):
                    raise Refused("ValidationException", f"{link['described']['AssociationId']} is CREATING.")

    def limits(self, request, region):
        resources = request.get("ResourceConfig", {})
        spot = "spot " if request.get("EnableManagedSpotTraining") else ""
        name = f"{resources.get('InstanceType')} for {spot}training job usage"
        limit = self.world.settings.limits.get(name)
        if limit is None:
            return
        used = sum(
            job.instances()
            for (where, _), job in self.world.jobs.items()
            if where == region and job.ended is None
            and job.request["ResourceConfig"].get("InstanceType") == resources.get("InstanceType")
        )
        if used + resources.get("InstanceCount", 1) > limit:
            raise Refused(
                "ResourceLimitExceeded",
                f"The account-level service limit '{name}' is {limit} Instances, with current utilization of {used} "
                f"Instances and a request delta of {resources.get('InstanceCount', 1)} Instances. Please use AWS "
                "Service Quotas to request an increase for this quota.",
            )

    def source(self, request, job):
        """Lets a job without its source archive fail during the download, as the container does."""
        text = request.get("HyperParameters", {}).get("sagemaker_submit_directory")
        if not text or not text.startswith('"s3://'):
            return
        bucket, _, key = json.loads(text).removeprefix("s3://").partition("/")
        found = s3_backends[self.world.account]["aws"].buckets.get(bucket)
        if found is None or found.keys.get(key) is None:
            job.steps, job.reason = ["Downloading", "Failed"], f"ClientError: no source archive at s3://{bucket}/{key}"

    def find(self, name, region):
        job = self.world.jobs.get((region, name))
        if job is None:
            raise Refused("ValidationException", "Requested resource not found.")
        return job

    def do_DescribeTrainingJob(self, request, region):
        job = self.find(request["TrainingJobName"], region)
        if job.lag > 0:
            job.lag -= 1
            raise Refused("ValidationException", "Requested resource not found.")
        job.read()
        sent = json.loads(json.dumps(job.request))
        sent.pop("Tags", None)
        sent["OutputDataConfig"] = {"KmsKeyId": "", "CompressionType": "GZIP", **sent["OutputDataConfig"]}
        if "CheckpointConfig" in sent:
            sent["CheckpointConfig"].setdefault("LocalPath", "/opt/ml/checkpoints/")
        for flag in ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining"):
            sent.setdefault(flag, False)
        answer = {
            **sent,
            "TrainingJobArn": job.arn,
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary,
            "SecondaryStatusTransitions": job.transitions,
            "CreationTime": job.created,
            "LastModifiedTime": job.modified,
            "ModelArtifacts": {
                "S3ModelArtifacts": f"{sent['OutputDataConfig']['S3OutputPath']}{request['TrainingJobName']}"
                "/output/model.tar.gz"
            },
        }
        if job.began:
            answer["TrainingStartTime"] = job.began
            answer["TrainingTimeInSeconds"] = int((job.ended or time.time()) - job.began)
        if job.ended:
            answer["TrainingEndTime"] = job.ended
            answer["BillableTimeInSeconds"] = int(job.ended - (job.began or job.ended))
        if job.status == "Failed":
            answer["FailureReason"] = job.reason
        return answer

    def do_ListTrainingJobs(self, request, region):
        shown = []
        for (where, name), job in self.world.jobs.items():
            if where != region or job.lag > 0:
                continue
            if request.get("NameContains", "").lower() not in name.lower():
                continue
            if request.get("StatusEquals") not in (None, job.status):
                continue
            shown.append(
                {
                    "TrainingJobName": name,
                    "TrainingJobArn": job.arn,
                    "CreationTime": job.created,
                    "LastModifiedTime": job.modified,
                    "TrainingJobStatus": job.status,
                    "SecondaryStatus": job.secondary,
                    **({"TrainingEndTime": job.ended} if job.ended else {}),
                }
            )
        shown.sort(key=lambda job: job["CreationTime"], reverse=request.get("SortOrder") != "Ascending")
        items, token = page(shown, {"MaxResults": 10, **request}, 100)
        return {"TrainingJobSummaries": items, **({"NextToken": token} if token else {})}

    def do_StopTrainingJob(self, request, region):
        job = self.find(request["TrainingJobName"], region)
        if job.ended is not None:
            raise Refused(
                "ValidationException",
                f"The request was rejected because the training job is in status {job.status}.",
            )
        job.stop()
        return {}

    def do_DeleteTrainingJob(self, request, region):
        job = self.find(request["TrainingJobName"], region)
        if job.ended is None:
            raise Refused("ResourceInUse", "The training job is not in a terminal state.")
        del self.world.jobs[region, request["TrainingJobName"]]
        self.world.tags.pop(job.arn, None)
        return {}

    def do_UpdateTrainingJob(self, request, region):
        job = self.find(request["TrainingJobName"], region)
        for member in ("ProfilerConfig", "ProfilerRuleConfigurations", "RemoteDebugConfig"):
            if member in request:
                job.request[member] = request[member]
        return {"TrainingJobArn": job.arn}

    def do_ListTags(self, request, region):
        tags = self.tagged(request["ResourceArn"])
        return {"Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}

    def do_AddTags(self, request, region):
        self.tagged(request["ResourceArn"]).update({t["Key"]: t["Value"] for t in request["Tags"]})
        return {"Tags": request["Tags"]}

    def do_DeleteTags(self, request, region):
        for key in request["TagKeys"]:
            self.tagged(request["ResourceArn"]).pop(key, None)
        return {}

    def tagged(self, arn):
        if arn not in self.world.tags:
            raise Refused("ValidationException", "Requested resource not found.")
        return self.world.tags[arn]
