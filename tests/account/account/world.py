"""What the account holds beside moto's own state, and the settings a test may turn."""

import dataclasses
import threading

ACCOUNT = "111122223333"
JOB = ["Starting", "Downloading", "Training", "Training", "Uploading", "Completed"]


@dataclasses.dataclass
class Settings:
    """Turned by `POST /_account/settings`; every wait is counted in reads, so that no test sleeps."""

    latency_ms: float = 0  # before every answer
    file_system_reads: int = 2  # DescribeFileSystems that still show CREATING or DELETING
    association_reads: int = 1
    stopping_reads: int = 1
    iam_lag: int = 0  # CreateTrainingJob that do not see a role written just now
    read_lag: int = 0  # reads that do not see what was written just now
    job_steps: list = dataclasses.field(default_factory=lambda: list(JOB))  # one DescribeTrainingJob each
    failure_reason: str = "AlgorithmError: ExecuteUserScriptError: ExitCode 1"
    log_lines: int = 5  # per host
    log_seconds: int = 600  # over which the lines of a host are spread
    log_text: dict = dataclasses.field(default_factory=dict)  # host -> lines, instead of made ones
    quotas: dict = dataclasses.field(default_factory=dict)  # quota code -> value; others are plenty
    limits: dict = dataclasses.field(default_factory=dict)  # quota name -> instances CreateTrainingJob allows
    file_system_fails: str = ""  # the reason with which file systems end FAILED
    missing_images: bool = False  # whether every image is missing from its registry
    hidden_checksums: bool = False  # as with a key that the caller may not use: HeadObject refuses checksums
    no_overwriting: bool = False  # as with a bucket policy that requires If-None-Match
    foreign_buckets: list = dataclasses.field(default_factory=list)  # owned by somebody else


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
        self.named = set()  # ARNs of secrets and keys that are there
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
    """One page of `items`, and the token of the next one."""
    start = int(request.get("NextToken") or 0)
    size = min(request.get(count) or most, most)
    end = start + size
    return items[start:end], (str(end) if end < len(items) else None)
