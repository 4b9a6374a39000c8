"""Compares CreateTrainingJob requests by the job that they describe.

`differences(ours, theirs)` -> [(path, ours, theirs)], empty if they are equal by these rules:

* hyperparameters are compared after JSON decoding (the SDK encodes every value as JSON), including the type: `1`, `1.0`
  and `true` reach the script as different words, so they differ; `2e-4` and `0.0002` do not;
* a documented default of a member or an SMP parameter may be present or absent (DEFAULTS below);
* the values of the job's name, the role and the location of the source archive are not compared, but both sides must
  have them or neither; tags named `trainc:…` are ignored;
* maps and lists of named things (channels, tags, metrics, instance groups, debugger collections) have no order.

All other differences count.
"""

import json
import re

APART = "<apart>"
ABSENT = "<absent>"

# SMP v1 parameters of `mp_parameters` that have a documented default. Source: the SMP "general" page of
# aws/sagemaker-python-sdk and the developer guide's configuration tables.
SMP1_DEFAULTS = {
    "microbatches": 1,
    "pipeline": "interleaved",
    "optimize": "memory",
    "placement_strategy": "cluster",
    "auto_partition": True,
    "default_partition": 0,
    "contiguous": True,
    "horovod": False,
    "ddp": False,
    "deterministic_server": False,
    "offload_activations": False,
    "activation_loading_horizon": 4,
    "tensor_parallel_degree": 1,
    "shard_optimizer_state": False,
    "prescaled_batch": False,
    "skip_tracing": False,
    "fp16_params": False,
    "fp16": False,
    "bf16": False,
    "delayed_parameter_initialization": False,
    "sharded_data_parallel_degree": 1,
    "sdp_reduce_bucket_size": 500_000_000,
    "sdp_param_persistence_threshold": 1_000_000,
    "sdp_max_live_parameters": 1_000_000_000,
    "sdp_hierarchical_allgather": True,
    "sdp_gradient_clipping": 1.0,
}

# SMP v2 parameters whose default the developer guide states unambiguously.
SMP2_DEFAULTS = {
    "hybrid_shard_degree": 0,
    "tensor_parallel_degree": 1,
    "context_parallel_degree": 1,
    "expert_parallel_degree": 1,
}

# Members of the request that the service (as Describe shows) or the SDK sets. Source: documentation strings
# of the botocore service model, and sagemaker 2.257.7's Estimator (max_run, volume_size, input_mode).
STOPPING_DEFAULTS = {"MaxRuntimeInSeconds": 86400}
RESOURCE_DEFAULTS = {"VolumeSizeInGB": 30}
TOP_DEFAULTS = {
    "EnableManagedSpotTraining": False,
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
}
OUTPUT_DEFAULTS = {"KmsKeyId": "", "CompressionType": "GZIP"}
CHECKPOINT_DEFAULTS = {"LocalPath": "/opt/ml/checkpoints/"}
CHANNEL_DEFAULTS = {"CompressionType": "None", "RecordWrapperType": "None"}
S3_DEFAULTS = {"S3DataDistributionType": "FullyReplicated"}
HOOK_DEFAULTS = {"CollectionConfigurations": []}
PROFILER_DEFAULTS = {"DisableProfiler": False}

# The estimator classes for these images send EnableSageMakerMetricsTimeSeries true by default (PyTorch from
# 1.3, HuggingFace always), and the service sets it for prebuilt images.
METRIC_IMAGES = re.compile(r"^\d{12}\.dkr\.ecr\.[^/]+/((huggingface-)?pytorch-training|smdistributed-modelparallel)[:@]")

# The launcher's options if none are set (SDK: `custom_mpi_options` defaults to the empty string).
MPI_OPTIONS = {
    "sagemaker_mpi_enabled": "sagemaker_mpi_custom_mpi_options",
    "sagemaker_distributed_dataparallel_enabled": "sagemaker_distributed_dataparallel_custom_mpi_options",
}

TIMESTAMP = re.compile(r"-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-\d{3}$")


def filled(value, defaults):
    return {**defaults, **value}


def decode(text):
    """Returns the value of a hyperparameter; text that is not JSON is kept as text."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return {"<not JSON>": text}


def mp_parameters(value, torchrun):
    if not isinstance(value, dict):
        return value
    if torchrun:
        return filled(value, SMP2_DEFAULTS)
    value = dict(value)
    if "pipeline_parallel_degree" in value and "partitions" not in value:  # documented alias
        value["partitions"] = value.pop("pipeline_parallel_degree")
    value = filled(value, SMP1_DEFAULTS)
    value["placement_strategy"] = {"DPT": "cluster", "TPD": "spread"}.get(
        value["placement_strategy"], value["placement_strategy"]
    )
    value.setdefault("memory_weight", 0.2 if value["optimize"] == "speed" else 0.8)
    if isinstance(value.get("partitions"), int):
        value.setdefault("active_microbatches", value["partitions"] + 2)
    return value


def hyperparameters(given):
    values = {name: decode(text) for name, text in given.items()}
    for switch, options in MPI_OPTIONS.items():
        if values.get(switch) is True:
            values.setdefault(options, "")
    if "mp_parameters" in values:
        torchrun = values.get("sagemaker_torch_distributed_enabled") is True
        values["mp_parameters"] = mp_parameters(values["mp_parameters"], torchrun)
    for name in ("sagemaker_submit_directory", "sagemaker_job_name"):
        if name in values:
            values[name] = APART
    return values


def named(items, key):
    """Converts a list of named items to a map; duplicate names get a suffix, so that they are reported."""
    out = {}
    for item in items:
        name = item.get(key, "?")
        while name in out:
            name += " (again)"
        out[name] = {k: v for k, v in item.items() if k != key}
    return out


def channel(value, input_mode):
    value = filled(value, {**CHANNEL_DEFAULTS, "InputMode": input_mode})
    source = value.get("DataSource", {})
    if "S3DataSource" in source:
        value["DataSource"] = {**source, "S3DataSource": filled(source["S3DataSource"], S3_DEFAULTS)}
    return value


def normalise(request):
    """Returns the request in canonical form, as a new value."""
    out = json.loads(json.dumps(request))
    for name in ("TrainingJobName", "RoleArn"):
        if name in out:
            out[name] = APART
    out = filled(out, TOP_DEFAULTS)
    if "HyperParameters" in out:
        out["HyperParameters"] = hyperparameters(out["HyperParameters"])
    algorithm = out.get("AlgorithmSpecification")
    if algorithm is not None:
        algorithm.setdefault("TrainingInputMode", "File")
        if METRIC_IMAGES.search(algorithm.get("TrainingImage", "")):
            algorithm.setdefault("EnableSageMakerMetricsTimeSeries", True)
        if "MetricDefinitions" in algorithm:
            algorithm["MetricDefinitions"] = named(algorithm["MetricDefinitions"], "Name")
    mode = (algorithm or {}).get("TrainingInputMode", "File")
    for name, defaults in (
        ("StoppingCondition", STOPPING_DEFAULTS),
        ("ResourceConfig", RESOURCE_DEFAULTS),
        ("OutputDataConfig", OUTPUT_DEFAULTS),
        ("CheckpointConfig", CHECKPOINT_DEFAULTS),
        ("DebugHookConfig", HOOK_DEFAULTS),
        ("ProfilerConfig", PROFILER_DEFAULTS),
    ):
        if name in out:
            out[name] = filled(out[name], defaults)
    if "DebugHookConfig" in out:  # the SDK keeps collections in a set
        hook = out["DebugHookConfig"]
        hook["CollectionConfigurations"] = named(hook["CollectionConfigurations"], "CollectionName")
    if "InstanceGroups" in out.get("ResourceConfig", {}):
        out["ResourceConfig"]["InstanceGroups"] = named(out["ResourceConfig"]["InstanceGroups"], "InstanceGroupName")
    if "InputDataConfig" in out:
        channels = [channel(c, mode) for c in out["InputDataConfig"]]
        out["InputDataConfig"] = named(channels, "ChannelName")
        code = out["InputDataConfig"].get("code")  # under network isolation the archive is a channel
        if code and "sagemaker_submit_directory" in out.get("HyperParameters", {}) and out["EnableNetworkIsolation"]:
            code["DataSource"]["S3DataSource"]["S3Uri"] = APART
    if "Tags" in out:
        tags = [t for t in out["Tags"] if not t.get("Key", "").startswith("trainc:")]
        out["Tags"] = named(tags, "Key")
    for name in ("DebugRuleConfigurations", "ProfilerRuleConfigurations"):
        for rule in out.get(name, []):  # the SDK adds the time to the name of a rule
            rule["RuleConfigurationName"] = TIMESTAMP.sub("", rule.get("RuleConfigurationName", ""))
    for place in (out, algorithm or {}):  # an empty map is equivalent to an absent one
        for name in ("Tags", "Environment", "HyperParameters", "InputDataConfig", "MetricDefinitions"):
            if place.get(name) in ({}, []):
                del place[name]
    return out


def without(request, exempt):
    """Returns the normalised request without the members at dotted paths (`ResourceConfig.InstancePreferences`)."""
    out = json.loads(json.dumps(request))
    for path in exempt:
        *parents, last = path.split(".")
        place = out
        for name in parents:
            place = place.get(name, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            place.pop(last, None)
    return out


def same(ours, theirs):
    """Compares values and types: `1`, `1.0` and `true` differ."""
    return type(ours) is type(theirs) and ours == theirs


def walk(ours, theirs, path, out):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            walk(ours.get(key, ABSENT), theirs.get(key, ABSENT), f"{path}.{key}" if path else key, out)
    elif isinstance(ours, list) and isinstance(theirs, list):
        for index in range(max(len(ours), len(theirs))):
            left = ours[index] if index < len(ours) else ABSENT
            right = theirs[index] if index < len(theirs) else ABSENT
            walk(left, right, f"{path}[{index}]", out)
    elif not same(ours, theirs):
        out.append((path, ours, theirs))


def differences(ours, theirs, exempt=()):
    """Returns [(path, ours, theirs)] of the normalised requests, without the exempt members."""
    out = []
    walk(without(normalise(ours), exempt), without(normalise(theirs), exempt), "", out)
    return out


def show(found, ours="ours", theirs="theirs"):
    """Formats the differences for an assertion."""
    lines = [f"{len(found)} difference(s)"]
    for path, left, right in found:
        lines.append(f"  {path}")
        lines += [f"    {who + ':':<10} {json.dumps(value)}" for who, value in ((ours, left), (theirs, right))]
    return "\n".join(lines)
