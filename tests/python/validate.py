"""Validates requests against the service model in botocore: `problems("sagemaker", "CreateTrainingJob", request)`.

botocore's ParamValidator checks required and unknown members, types and minimum lengths; `walk` adds the checks of
the service that botocore lacks: maximum lengths, ranges, patterns over the whole string, enumerations.
Patterns are Java's; the `regex` module supports them (`\\p{L}`, look-behind), with ASCII digits and word characters.
"""

import functools

import botocore.session
import regex
from botocore.validate import ParamValidator


@functools.cache
def operation(service, name):
    return botocore.session.Session().get_service_model(service).operation_model(name).input_shape


@functools.cache
def pattern(text):
    unicode_classes = r"\p{L}" in text
    return regex.compile(text, regex.V0 if unicode_classes else regex.V0 | regex.ASCII)


def size(metadata, count, path, what, out):
    if count < metadata.get("min", 0):
        out.append(f"{path}: {count} {what}, at least {metadata['min']}")
    if "max" in metadata and count > metadata["max"]:
        out.append(f"{path}: {count} {what}, at most {metadata['max']}")


def walk(shape, value, path, out):
    metadata = shape.metadata
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, member in value.items():
            if name in shape.members:
                walk(shape.members[name], member, f"{path}.{name}", out)
    elif kind == "list" and isinstance(value, list):
        size(metadata, len(value), path, "entries", out)
        for index, member in enumerate(value):
            walk(shape.member, member, f"{path}[{index}]", out)
    elif kind == "map" and isinstance(value, dict):
        size(metadata, len(value), path, "entries", out)
        for key, member in value.items():
            walk(shape.key, key, f"{path}.<key {key!r}>", out)
            walk(shape.value, member, f"{path}.{key}", out)
    elif kind == "string" and isinstance(value, str):
        size(metadata, len(value), path, "characters", out)
        if getattr(shape, "enum", None) and value not in shape.enum:
            out.append(f"{path}: {value!r} is not one of the {len(shape.enum)} values of {shape.name}")
        if "pattern" in metadata and pattern(metadata["pattern"]).fullmatch(value) is None:
            out.append(f"{path}: {value!r} does not match {metadata['pattern']}")
    elif kind in ("integer", "long", "float", "double") and isinstance(value, (int, float)):
        if "min" in metadata and value < metadata["min"] or "max" in metadata and value > metadata["max"]:
            out.append(f"{path}: {value} is outside {metadata.get('min')}..{metadata.get('max')}")


def twice(values, path, out):
    for value in sorted({v for v in values if values.count(v) > 1}):
        out.append(f"{path}: {value!r} stands twice")


def problems(service, name, request):
    """Returns all violations of the service model, as lines of text."""
    shape = operation(service, name)
    if not isinstance(request, dict):
        return [f"{name}: the request is a {type(request).__name__}, not an object"]
    report = ParamValidator().validate(request, shape)
    out = report.generate_report().splitlines() if report.has_errors() else []
    walk(shape, request, name, out)
    keys = [str(t.get("Key")) for t in request.get("Tags", []) if isinstance(t, dict)]
    twice([k.lower() for k in keys] if service == "iam" else keys, f"{name}.Tags", out)  # IAM ignores case
    channels = [c.get("ChannelName") for c in request.get("InputDataConfig", []) if isinstance(c, dict)]
    twice(channels, f"{name}.InputDataConfig", out)
    return out
