"""What Python reads from small documents is what is recorded: the tests of the crate trainc-document compare with that."""

import document_cases


def test_record_is_what_python_reads():
    recorded = document_cases.CASES.read_text(encoding="utf-8").splitlines()
    current = document_cases.record().splitlines()
    assert [line for line in current if line not in recorded] == []
    assert recorded == current
