"""Prints the twenty slowest tests of JUnit reports: slowest.py REPORT…, as `./test` does at its end."""

import sys
import xml.etree.ElementTree as ET

cases = [case for path in sys.argv[1:] for case in ET.parse(path).iter("testcase")]
for case in sorted(cases, key=lambda case: -float(case.get("time", 0)))[:20]:
    print(f"{float(case.get('time', 0)):7.1f} s  {case.get('classname')} {case.get('name')}")
