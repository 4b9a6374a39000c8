"""The state of the account in addition to moto's, and the settings that a test can change."""

import dataclasses
import threading

ACCOUNT = "111122223333"
JOB = ["Starting", "Downloading", "Training", "Training", "Uploading", "Completed"]


@dataclasses.dataclass
class Settings:
    """Settings, changed by `POST /_account/settings`. Every wait is a number of reads, so that no test sleeps."""

    latency_ms: float = 0  # before every answer
    file_system_reads: int = 2  # DescribeFileSystems calls that still show CREATING or DELETING
    association_reads: int = 1
    stopping_reads: int = 1
    iam_lag: int = 0  # CreateTrainingJob calls that do not see a role just written
    read_lag: int = 0  # reads that do not see a recent write
    job_steps: list = dataclasses.field(default_factory=lambda: list(JOB))  # one per DescribeTrainingJob
    failure_reason: str = "AlgorithmError: ExecuteUserScriptError: ExitCode 1"
    log_lines: int = 5  # per host
    log_seconds: int = 600  # duration over which the lines of a host are spread
    log_text: dict = dataclasses.field(default_factory=dict)  # host -> lines, instead of generated ones
    quotas: dict = dataclasses.field(default_factory=dict)  # quota code -> value; others are high
    limits: dict = dataclasses.field(default_factory=dict)  # quota name -> instances that CreateTrainingJob allows
    file_system_fails: str = ""  # reason for which file systems become FAILED
    missing_images: bool = False  # every image is missing from its registry
    hidden_checksums: bool = False  # as with a key that the caller may not use: HeadObject denies checksums
    no_overwriting: bool = False  # as with a bucket policy that requires If-None-Match
    foreign_buckets: list = dataclasses.field(default_factory=list)  # owned by another account


class World:
    def __init__(self, account=ACCOUNT):
        self.account = account
        self.lock = threading.RLock()
        self.reset()

    def reset(self):
        self.settings = Settings()
        self.jobs = {}  # (region, name) -> Job
        self.file_systems = {}  # (region, id) -> dict
        self.associations = {}  # (region, id) -> dict
        self.tokens = {}  # (region, token) -> (request, id)
        self.tags = {}  # arn -> {key: value}
        self.role_lag = {}  # role name -> refusals left
        self.named = set()  # ARNs of existing secrets and keys
        self.stale = {}  # (operation, role, policy) -> [reads left, Answer]
        self.counter = 0
        self.rules = []
        self.record = []

    def number(self):
        self.counter += 1
        return self.counter

    def set(self, values):
        for name, value in values.items():
            if not hasattr(self.settings, name):
                raise ValueError(f"no setting is called {name}")
            setattr(self.settings, name, value)


def page(items, request, most, count="MaxResults"):
    """Returns one page of `items`, and the token of the next page."""
    start = int(request.get("NextToken") or 0)
    size = min(request.get(count) or most, most)
    end = start + size
    return items[start:end], (str(end) if end < len(items) else None)
