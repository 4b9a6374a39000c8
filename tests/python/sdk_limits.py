"""What the SageMaker Python SDK 2.257.7 has no word for.

An estimator.py declares such a member in a line `# not sayable in the SDK: <Member.Path>`; only these may be declared.
"""

import re

UNSAYABLE = {}

DECLARED = re.compile(r"^\s*# not sayable in the SDK: ([A-Za-z0-9.]+)\s*$", re.MULTILINE)


def declared(text):
    return DECLARED.findall(text)
