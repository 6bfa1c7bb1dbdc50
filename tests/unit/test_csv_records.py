"""Records of CSV: each by the number of its line, and a broken one takes no other along."""

import io

import pytest

from functions.cli.csv_records import MAX_LINE_BYTES, MAX_RECORD_LINES, records_of


def read(content: bytes) -> list[tuple[int, list[str] | None]]:
    return [(record.line, record.cells) for record in records_of(io.BytesIO(content))]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_every_usual_file_reads_alike(mark: bytes, end: bytes, last: bool) -> None:
    content = mark + end.join([b"a,b", b'1,"x, ""y"""', b"", "2,é".encode()])
    assert read(content + end if last else content) == [
        (1, ["a", "b"]),
        (2, ["1", 'x, "y"']),
        (4, ["2", "é"]),
    ]


def test_a_quoted_line_break_is_part_of_its_cell_and_counts_as_a_line() -> None:
    assert read(b'a,b\r\n1,"x\r\ny\n"\r\n2,z\r\n') == [
        (1, ["a", "b"]),
        (2, ["1", "x\r\ny\n"]),
        (5, ["2", "z"]),
    ]


def test_a_quote_that_is_never_closed_breaks_its_own_line_alone() -> None:
    assert read(b'a,b\n1,"x\n2,y\n3,z\n') == [
        (1, ["a", "b"]),
        (2, None),
        (3, ["2", "y"]),
        (4, ["3", "z"]),
    ]


def test_a_quote_that_is_closed_by_anothers_breaks_its_own_line_alone() -> None:
    assert read(b'a,b\n1,"x\n2,y\n3,"z"\n4,w\n') == [
        (1, ["a", "b"]),
        (2, None),
        (3, ["2", "y"]),
        (4, ["3", "z"]),
        (5, ["4", "w"]),
    ]


def test_text_after_a_quote_breaks_its_line() -> None:
    assert read(b'"a"b,c\n1,2\n') == [(1, None), (2, ["1", "2"])]


def test_an_open_quote_is_given_up_after_so_many_lines_and_all_others_are_read() -> None:
    number = 3 * MAX_RECORD_LINES
    content = b'1,"x\n' + b"2,y\n" * number
    records = read(content)
    assert records[0] == (1, None)
    assert records[1:] == [(line + 2, ["2", "y"]) for line in range(number)]


def test_a_line_without_an_end_is_not_read_whole() -> None:
    long = b"x" * (5 * MAX_LINE_BYTES)
    assert read(b"a,b\n" + long + b"\n1,2\n") == [(1, ["a", "b"]), (2, None), (3, ["1", "2"])]


def test_bytes_that_are_no_text_are_kept_apart() -> None:
    ((_, cells),) = read(b"a,\xff\n")
    assert cells == ["a", "\udcff"]


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b",,\n , \n"])
def test_nothing_is_no_record(content: bytes) -> None:
    assert read(content) == []
