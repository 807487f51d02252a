"""The tool that looks at uploaded data, outside of a box: what it says of tricky files is what Python's csv module reads
from them."""
import csv
import io
import json
import random
import re
import subprocess
import zipfile

import box
import pytest

TOOL = box.BUILD / "cloche-profile"
NULLS = {"", "NA", "N/A", "n/a", "NULL", "null", "Null", "None", "NaN", "nan", "<NA>", "#N/A", "#NA"}


def profile(tmp_path, content):
    path = tmp_path / "data"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = subprocess.run([TOOL, path], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_of(content, delimiter=","):
    text = content.decode("utf-8-sig", "replace") if isinstance(content, bytes) else content
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]


def kind(value):
    """The type of one value, by rules that are written down a second time."""
    value = value.strip(" ")
    if value in NULLS:
        return None
    if re.fullmatch(r"[+-]?\d{1,18}", value):
        return "integer"
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-?[iI]nf", value):
        return "number"
    if value.lower() in ("true", "false") and value in ("true", "false", "True", "False", "TRUE", "FALSE"):
        return "boolean"
    date = r"\d{4}([-/])(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])"
    if re.fullmatch(date, value):
        return "date"
    if re.fullmatch(date + r"[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?", value):
        return "datetime"
    return "text"


def type_of(values):
    kinds = {kind(value) for value in values} - {None}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"integer", "number"}:
        return "number"
    return "datetime" if kinds == {"date", "datetime"} else "text"


def check_against_csv(found, content, delimiter=","):
    rows = rows_of(content, delimiter)
    body = rows[1:] if found["header"] else rows
    width = max(map(len, rows))
    assert found["rows"] == len(body)
    assert len(found["columns"]) == width
    for index, column in enumerate(found["columns"]):
        values = [row[index] for row in body if len(row) > index]
        assert column["nulls"] == len(body) - sum(kind(value) is not None for value in values), column
        assert column["type"] == type_of(values), column
        if found["header"] and index < len(rows[0]) and rows[0][index]:
            assert column["name"] == rows[0][index]
    for told, row in zip(found["sample"], body):
        assert told == row + [None] * (width - len(row))
    assert len(found["sample"]) == min(20, len(body))


TRICKY = {
    "plain": "a,b,c\n1,2,3\n4,5,6\n",
    "quotes": 'name,text\nx,"a, b"\ny,"say ""hi"""\nz,""""\n',
    "newlines in quotes": 'id,text\n1,"two\nlines"\n2,"win\r\ndows"\n3,"old\rmac"\n',
    "crlf": "a,b\r\n1,2\r\n3,4\r\n",
    "cr": "a,b\r1,2\r3,4\r",
    "mixed ends": "a,b\n1,2\r\n3,4\r5,6",
    "no newline at the end": "a,b\n1,2\n3,4",
    "empty last cell": "a,b\n1,2\n3,",
    "bom": b"\xef\xbb\xbfa,b\n1,2\n",
    "bom and quotes": b'\xef\xbb\xbf"a","b"\n1,2\n',
    "ragged": "a,b,c\n1,2,3\n4\n5,6,7,8\n9,10\n",
    "blank lines": "a,b\n\n1,2\n\n\n3,4\n\n",
    "quote in the middle": 'a,b\nx"y,1\nx"",2\n',
    "more after the closing quote": 'a,b\n"x"y,1\n"1"2,3\n"p"q"r,4\n',
    "empty quotes": 'a,b\n"",1\n"",2\n',
    "only quotes": '"a","b"\n"1","2"\n"3","4"\n',
    "nulls": "a,b\nNA,1\nnull,\nN/A,3\n,NaN\nnot null,None\n",
    "spaces": "a,b\n 1, x\n2 ,y \n  , z\n",
    "dates": "d,t,m\n2024-01-31,2024-01-31 10:00,2024-01-31\n2023/12/01,2024-02-29T23:59:59.123Z,2024-01-31 10:00:00+01:00\n",
    "not dates": "d,e,f\n2024-13-01,24-01-01,2024-01-31 25:00\n2024-00-10,2024-1-1,2024-01-3110:00\n",
    "booleans": "a,b,c\ntrue,True,yes\nfalse,FALSE,no\n",
    "numbers": "a,b,c,d\n1,1.5,1e3,-.5\n-2,2,+7,5.\n",
    "long numbers": "a,b\n123456789012345678,1\n1234567890123456789,2\n99999999999999999999999,3\n",
    "almost numbers": "a,b,c,d\n1.2.3,1e,--1,1-2\n0x10,1_000,+,.\n",
    "one column": "x\n1\n2\n3\n",
    "one row": "a,b,c\n",
    "unicode": "größe,名前\n1,é\n2,日本\n",
    "only delimiters": "a,b\n,\n,\n",
    "text that looks like columns": 'a,b\n"1;2;3","4;5"\n"6;7;8","9;0"\n',
}


@pytest.mark.parametrize("name", TRICKY)
def test_csv_is_read_as_python_reads_it(tmp_path, name):
    found = profile(tmp_path, TRICKY[name])
    assert found["format"] == "csv" and found["delimiter"] == ","
    check_against_csv(found, TRICKY[name])


@pytest.mark.parametrize("delimiter, name", [(";", "csv"), ("\t", "tsv"), ("|", "csv"), (",", "csv")])
def test_delimiter_is_found(tmp_path, delimiter, name):
    lines = ["id;name;amount", "1;a,b;2.5", "2;c|d;3", '3;"e;f";4']
    content = "\n".join(line.replace(";", delimiter) for line in lines) + "\n"
    found = profile(tmp_path, content)
    assert (found["format"], found["delimiter"]) == (name, delimiter)
    if delimiter == ";":
        check_against_csv(found, content, ";")


@pytest.mark.parametrize("content, has_one", [
    ("a,b\n1,2\n", True), ("1,2\n3,4\n", False), ("x,y\nfoo,bar\n", True), ("2020-01-01,1\n2020-01-02,2\n", False),
    ("country,1990,1991\nx,1,2\ny,3,4\n", False), ("country,when,1991\nx,2020-01-01,2\ny,2020-01-01,4\n", True),
    (",a,b\n0,1,2\n1,2,3\n", True), ("a,a\nb,b\n", False), ("true,false\ntrue,true\n", False)])
def test_header_is_told_from_values(tmp_path, content, has_one):
    assert profile(tmp_path, content)["header"] == has_one


def test_least_and_most(tmp_path):
    found = profile(tmp_path, "i,n,d,t,m,b\n5,1.5,2024-03-01,pear,1,true\n-7,-2,2023-12-31,apple,x,false\n"
                              '100,1e3,2024-01-01,"fig ""q""",3,true\n')
    ends = {column["name"]: (column.get("min"), column.get("max")) for column in found["columns"]}
    assert ends == {"i": (-7, 100), "n": (-2, 1000), "d": ("2023-12-31", "2024-03-01"), "t": ("apple", "pear"),
                    "m": (None, None), "b": (None, None)}


def test_least_and_most_of_random_values(tmp_path):
    random.seed(7)
    words = ["".join(random.choice('ab"é,\n') for _ in range(random.randrange(1, 14))) for _ in range(500)]
    numbers = [round(random.uniform(-1e6, 1e6), random.randrange(0, 9)) for _ in words]
    integers = [random.randrange(-10 ** random.randrange(1, 19), 10 ** random.randrange(1, 18)) for _ in words]
    into = io.StringIO()
    csv.writer(into).writerows([["w", "n", "i"], *zip(words, numbers, integers)])
    found = profile(tmp_path, into.getvalue())
    check_against_csv(found, into.getvalue())
    w, n, i = found["columns"]
    assert (w["min"], w["max"]) == (min(words), max(words))
    assert (n["min"], n["max"]) == (min(numbers), max(numbers))
    assert (i["min"], i["max"]) == (min(integers), max(integers))


def test_random_tables_are_read_as_python_reads_them(tmp_path):
    random.seed(3)
    cells = ["", "1", "-2.5", "x", 'say "hi"', "a,b", "two\nlines", "2024-01-01", "true", "NA", " 7 ", "é" * 90, "0" * 17, '"', "1e5"]
    for _ in range(40):
        width = random.randrange(1, 8)
        into = io.StringIO()
        writer = csv.writer(into, quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
                            lineterminator=random.choice(["\n", "\r\n"]))
        writer.writerow([f"name {i}" for i in range(width)])
        for _ in range(random.randrange(1, 60)):
            writer.writerow([random.choice(cells) for _ in range(width)])
        text = into.getvalue()
        found = profile(tmp_path, text)
        if found["delimiter"] == ",":
            check_against_csv(found, text)
        assert found["delimiter"] == "," or width == 1


def test_answer_is_json_whatever_the_bytes_are(tmp_path):
    found = profile(tmp_path, b"n\xe4me,\xff\n\xc3,1\n\xed\xa0\x80,2\n\"\x1b[31m\",3\n")
    assert [column["name"] for column in found["columns"]] == ["n\ufffdme", "\ufffd"]
    assert found["sample"] == [["\ufffd", "1"], ["\ufffd\ufffd\ufffd", "2"], ["\x1b[31m", "3"]]


def test_values_are_cut_between_characters(tmp_path):
    found = profile(tmp_path, "a,b\n" + "é" * 150 + ",1\nx" + "é" * 150 + ",2\n")
    assert found["sample"][0][0] == "é" * 100
    assert found["sample"][1][0] == "x" + "é" * 99


def test_answer_is_bounded(tmp_path):
    wide = ",".join("\x01" * 300 for _ in range(3000)) + "\n"
    path = tmp_path / "wide"
    path.write_bytes(b"x," * 60000 + b"x\n" + wide.encode() * 30)
    done = subprocess.run([TOOL, path], capture_output=True, timeout=60)
    assert done.returncode == 0 and len(done.stdout) < 8 << 20
    found = json.loads(done.stdout)
    assert len(found["columns"]) == 1000 and found["more_columns"] and found["rows"] == 31
    assert 0 < len(found["sample"]) <= 20


def test_quote_that_is_never_closed(tmp_path):
    found = profile(tmp_path, 'a,b\n1,"' + "x\n" * 100000)
    assert found["rows"] == 1 and len(found["sample"][0][1]) == 200


JSON_ROWS = [{"id": 1, "name": "a\"b", "when": "2024-01-01", "ok": True}, {"id": 2.5, "name": None, "more": {"x": [1, 2]}},
             {"ok": False, "id": -3, "name": "é\n"}]


@pytest.mark.parametrize("name, content", [
    ("jsonl", "\n".join(json.dumps(row) for row in JSON_ROWS)), ("json", json.dumps(JSON_ROWS)),
    ("json", json.dumps(JSON_ROWS, indent=2, ensure_ascii=False))])
def test_json_objects_are_rows(tmp_path, name, content):
    found = profile(tmp_path, content)
    assert (found["format"], found["rows"], found.get("bad_rows")) == (name, 3, None)
    columns = {column["name"]: (column["type"], column["nulls"]) for column in found["columns"]}
    assert columns == {"id": ("number", 0), "name": ("text", 1), "when": ("date", 2), "ok": ("boolean", 1), "more": ("text", 2)}
    assert found["columns"][0]["min"] == -3 and found["columns"][0]["max"] == 2.5
    assert found["sample"][0] == ["1", 'a"b', "2024-01-01", "true", None]
    assert json.loads(found["sample"][1][4]) == {"x": [1, 2]}
    assert found["sample"][2][1] == "é\n"


def test_wrong_lines_of_json_are_counted(tmp_path):
    found = profile(tmp_path, '{"a":1}\n{"a":\n{"a":3}\n[1]\n{"a":4} x\n')
    assert (found["format"], found["rows"], found["bad_rows"]) == ("jsonl", 5, 2)


def test_broken_json_is_json_still(tmp_path):
    for content in (b'[{"a": [[[', b'{"a": "', b"[" * 100000, b'{"a":' * 100000, b"[1, 2", b"{", b"[", b"[,]"):
        assert profile(tmp_path, content)["format"] == "json", content[:20]


@pytest.mark.parametrize("content, name", [
    (b"", "unknown"), (b"\xef\xbb\xbf", "unknown"), (b"\n\n", "unknown"), (b"PAR1" + b"\0" * 20 + b"PAR1", "parquet"),
    (bytes(range(256)), "unknown"), ("a,b\n1,2\n".encode("utf-16"), "unknown"), (b"\x1f\x8b\x08\x00aaaa", "gzip"), (b"SQLite format 3\0", "sqlite"), (b"%PDF-1.7\n", "pdf"),
    (b"PK\x05\x06" + b"\0" * 18, "zip"), (b"PK\x03\x04", "zip")])
def test_other_formats(tmp_path, content, name):
    found = profile(tmp_path, content)
    assert (found["format"], found["rows"], found["columns"], found["sample"]) == (name, None, [], [])


def test_what_is_no_file_is_an_error(tmp_path):
    for arguments in ([tmp_path], [tmp_path / "absent"], []):
        done = subprocess.run([TOOL, *arguments], capture_output=True, timeout=10)
        assert done.returncode != 0 and done.stdout == b"" and b"cloche-profile" in done.stderr


def archive(*names):
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as packed:
        for name in names:
            packed.writestr(name, "a,b\n1,2\n" * 50)
    return into.getvalue()


def test_archives_are_not_taken_for_tables(tmp_path):
    assert profile(tmp_path, archive("a.csv", "b.csv"))["format"] == "zip"
    found = profile(tmp_path, archive("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"))
    assert found["format"] == "xlsx" and found["columns"] == [] and found["rows"] is None, found


@pytest.mark.parametrize("text, encoding, told", [("a,b\nä,1\n", "utf-8", "utf-8"), ("a,b\nx,1\n", "ascii", "utf-8"), ("a,b\nMüller,1\n", "latin-1", "latin-1"),
                                                  ("a,b\n" + "x,1\n" * 9 + "é,2\n", "cp1252", "latin-1"), ("a,b\nä,1\n", "utf-8-sig", "utf-8")])
def test_the_encoding_of_a_table_is_told(tmp_path, text, encoding, told):
    found = profile(tmp_path, text.encode(encoding))
    assert found["format"] == "csv" and found["encoding"] == told and [column["name"] for column in found["columns"]] == ["a", "b"], found
    assert ("encoding=" in found.get("note", "")) == (told != "utf-8")


@pytest.mark.parametrize("encoding, told", [("utf-16", "utf-16le"), ("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")])
def test_utf16_is_named(tmp_path, encoding, told):
    found = profile(tmp_path, "name,value\nä,1\n".encode(encoding))
    assert found["format"] == "unknown" and found["encoding"] == told and "UTF-16" in found["note"] and found["columns"] == [], found
