"""Members that the SageMaker Python SDK 2.257.7 does not support.

An estimator.py declares such a member in a line `# not supported by the SDK: <Member.Path>`; only these may be declared,
so that a wrong script cannot exempt itself from the comparison. Every entry was tested with the SDK. A channel's
members are below its name: `InputDataConfig.train.InputMode`.
"""

import re


def always(_request):
    return True


def file_system_channel(request, name):
    channels = {c["ChannelName"]: c for c in request.get("InputDataConfig", [])}
    return "FileSystemDataSource" in channels.get(name, {}).get("DataSource", {})


def in_region(request):
    """Returns whether the SDK sends the debugger in the region of the job's image."""
    image = request.get("AlgorithmSpecification", {}).get("TrainingImage", "")
    found = re.search(r"\.dkr\.ecr\.([\w-]+)\.", image)
    # imported where it is needed: it takes seconds
    from sagemaker.fw_utils import _region_supports_debugger

    return found is None or _region_supports_debugger(found[1])


def has_profiler(request):
    from sagemaker.fw_utils import _instance_type_supports_profiler

    # True for Trainium, whatever its name says
    instance = request.get("ResourceConfig", {}).get("InstanceType")
    return in_region(request) and not _instance_type_supports_profiler(instance)


# member -> condition under which the SDK does not support it
MEMBERS = {
    "StoppingCondition.MaxPendingTimeInSeconds": always,  # **kwargs silently accepts unknown arguments
    "ResourceConfig.InstancePreferences": always,
    "MlflowConfig": always,
    "ModelPackageConfig": always,
    "ServerlessJobConfig": always,
    # the SDK always sends one: on, or {DisableProfiler: true}, which is the only one on Trainium and in some regions
    "ProfilerConfig": lambda request: "ProfilerConfig" not in request or not has_profiler(request),
    "ProfilerRuleConfigurations": lambda request: not has_profiler(request),
    # class PyTorch removes the hook if checkpoints have an S3 and a local path; in some regions it is an error
    "DebugHookConfig": lambda request: "LocalPath" in request.get("CheckpointConfig", {}) or not in_region(request),
}

# FileSystemInput supports ID, type, path, access mode and content type
FILE_SYSTEM = re.compile(r"InputDataConfig\.([\w-]+)\.(InputMode|CompressionType|RecordWrapperType|ShuffleConfig)")
DATASET = re.compile(r"InputDataConfig\.([\w-]+)\.DataSource\.DatasetSource")

# a job with one of these cannot be an estimator
WHOLE_JOB = {"ServerlessJobConfig"}

# Members that `ModelTrainer` of sagemaker-train 1.27.0 does not send: `_create_training_job_args` has no argument for them.
TRAINER = {
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ExperimentConfig",
    "MlflowConfig",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
}

DECLARED = re.compile(r"^\s*# not supported by the SDK: ([A-Za-z0-9._-]+)\s*$", re.MULTILINE)


def declared(text):
    """Returns the members that a script declares unsupported."""
    return DECLARED.findall(text)


def unsayable(member, request):
    if member in MEMBERS:
        return MEMBERS[member](request)
    found = FILE_SYSTEM.fullmatch(member)
    if found:
        return file_system_channel(request, found[1])
    return DATASET.fullmatch(member) is not None
