"""`python -m account [--port N] [--ready FILE]`: serves until it is terminated; writes its URL to stdout or FILE."""

import argparse
import os

from .world import ACCOUNT

parser = argparse.ArgumentParser(prog="account")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--account", default=ACCOUNT)
parser.add_argument("--ready", metavar="FILE")
arguments = parser.parse_args()
# Read when moto is imported. A reset would read hundreds of machine images, which nobody asks for.
os.environ.update(MOTO_ACCOUNT_ID=arguments.account, MOTO_EC2_LOAD_DEFAULT_AMIS="false")

from .front import serve  # noqa: E402

serve(arguments.account, arguments.port, arguments.ready)
