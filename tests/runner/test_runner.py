"""The Python runner by itself: what a context prints, shows and reports, and how its runs end."""
import json
import re
import struct
import threading
import time

import harness
import pytest

PNG = b"\x89PNG\r\n"


def test_ready_tells_protocol_and_version(context):
    assert context.ready["type"] == "ready" and context.ready["protocol"] == 1
    assert (context.ready["language"], context.ready["version"].split(".")[0]) == ("python", "3")


def test_variables_imports_and_directory_stay(context):
    assert context.run("import os, math\nx = 20\nos.mkdir('d'); os.chdir('d')").status == "ok"
    assert context.run("def double(n): return 2 * n").status == "ok"
    assert context.run("double(x) + math.floor(2.5)").value == "42"
    assert context.run("os.path.basename(os.getcwd())").value == "'d'"
    assert context.run("_ * 2").value == "'dd'"


def test_streams_keep_their_order(context):
    ended = context.run("import sys\nfor i in range(3):\n    print(i)\n    print(-i, file=sys.stderr)")
    parts = [(header["type"], body.decode()) for header, body in ended.events]
    assert parts == [(kind, f"{sign}{i}\n") for i in range(3) for kind, sign in (("stdout", ""), ("stderr", "-" if i else ""))]
    parts = [body for _, body in context.run("print('a', end=''); print('b', file=sys.stderr, end=''); print('c')").events]
    assert parts == [b"a", b"b", b"c\n"]
    assert (ended.stdout, ended.stderr) == ("0\n1\n2\n", "0\n-1\n-2\n")


def test_output_comes_as_it_is_written(context):
    context.start("import time\nprint('first', flush=True)\ntime.sleep(1)\nprint('second')")
    started = time.monotonic()
    header, body = context.receive()
    assert body.startswith(b"first") and time.monotonic() - started < 0.8
    assert context.wait().stdout == "second\n"


def test_bytes_and_odd_text_can_be_written(context):
    ended = context.run("import sys\nsys.stdout.buffer.write(b'\\xff\\x00raw')\nprint('\\ud800é')\nsys.stdout.isatty()")
    assert b"".join(body for header, body in ended.events if header["type"] == "stdout") == b"\xff\x00raw?\xc3\xa9\n"
    assert ended.value == "False"


def test_descriptors_one_and_two_are_left_to_other_programs(context):
    assert context.run("import subprocess\nsubprocess.run(['echo', 'from a child'])").status == "ok"
    context.socket.close()
    assert b"from a child" in context.process.communicate(timeout=10)[0]


@pytest.mark.parametrize("code,value", [
    ("1 + 1", "2"), ("x = 5", None), ("x = 5\nx", "5"), ("None", None), ("3;", None), ("'a' # said;", "'a'"),
    ("for i in range(2): i", None), ("", None), ("# nothing", None), ("[1,\n 2]", "[1, 2]"), ("if True:\n    4", None),
])
def test_value_of_the_last_expression(context, code, value):
    ended = context.run(code)
    assert (ended.status, ended.value) == ("ok", value)


def test_failing_repr_does_not_fail_the_run(context):
    ended = context.run("class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()")
    assert ended.status == "ok" and "repr() failed: ValueError: no" in ended.value


def test_error_has_name_value_and_a_clean_traceback(context):
    ended = context.run("def f(n):\n    return 1 / n\nf(0)")
    error = ended.end["error"]
    assert (ended.status, error["name"], error["value"]) == ("error", "ZeroDivisionError", "division by zero")
    assert "return 1 / n" in error["traceback"] and "f(0)" in error["traceback"]
    assert "cloche" not in error["traceback"] and "execute.py" not in error["traceback"], error["traceback"]
    assert context.run("'still here'").value == "'still here'"


def test_error_is_marked_where_it_is(context):
    for code in ("1 + 1 / 0", "1 + 1 / 0\n", "\x0c\n1 + 1 / 0"):  # a line without an end, and one that is none
        trace = context.run(code).end["error"]["traceback"].splitlines()
        assert trace[2:4] == ["    1 + 1 / 0", "        ~~^~~"], trace


def test_error_in_a_chain_is_clean_too(context):
    error = context.run("try:\n    [][1]\nexcept IndexError as e:\n    raise KeyError('x') from e").end["error"]
    assert "IndexError" in error["traceback"] and "direct cause" in error["traceback"]
    assert "cloche" not in error["traceback"]


@pytest.mark.parametrize("text", ["a\\0b", "\\ud800", "\\\\u0000 \\\\\\0"])
def test_error_with_odd_characters_is_one_that_the_host_can_read(context, text):
    context.start(f"raise ValueError('{text}')")
    head, _ = struct.unpack("<II", context.read(8))
    header = context.read(head)
    assert json.loads(header.decode())["error"]["name"] == "ValueError"
    assert b"\\u0000" not in re.findall(rb"\\\\|\\u....", header), header
    assert context.run("'alive'").value == "'alive'"


def test_syntax_error_shows_the_place(context):
    error = context.run("x = (1,\ny = 2").end["error"]
    assert error["name"] == "SyntaxError" and "<run 1>" in error["traceback"] and "cloche" not in error["traceback"]


def test_error_of_an_earlier_function_shows_its_own_lines(context):
    context.run("def g():\n    raise RuntimeError('from g')")
    trace = context.run("g()").end["error"]["traceback"]
    assert '"<run 1>", line 2, in g' in trace and "raise RuntimeError('from g')" in trace


def test_deep_recursion_is_an_error_of_the_run(context):
    ended = context.run("def f(): f()\nf()")
    assert ended.end["error"]["name"] == "RecursionError"
    assert context.run("1").value == "1"


@pytest.mark.parametrize("code,exit_code", [("import sys; sys.exit(3)", 3), ("exit()", 0), ("raise SystemExit('no')", 1),
                                            ("raise SystemExit(256 + 7)", 7)])
def test_exit_ends_the_run_and_not_the_context(context, code, exit_code):
    ended = context.run("y = 1\n" + code)
    assert (ended.status, ended.end["exit_code"]) == ("exit", exit_code)
    assert context.run("y").value == "1"


def test_top_level_await(context):
    assert context.run("import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'slept')").value == "'slept'"
    context.run("async def later(): return 7\ntask = asyncio.get_event_loop().create_task(later())")
    assert context.run("await task").value == "7"
    assert context.run("async with asyncio.timeout(1):\n    pass\n5").value == "5"


def test_interrupt_ends_the_run_and_keeps_the_state(context):
    context.start("import time\nn = 0\nprint('on')\nwhile True:\n    n += 1\n    time.sleep(0.01)")
    context.receive()
    time.sleep(0.2)
    context.interrupt()
    ended = context.wait()
    assert ended.status == "interrupted" and ended.end["error"]["name"] == "KeyboardInterrupt"
    assert context.run("n > 3").value == "True"


def test_interrupt_cuts_no_frame(context):
    """It comes while the socket is full and is being emptied: a write then ends in the middle."""
    for round_number in range(25):
        timer = threading.Timer(0.1 + 0.007 * round_number, context.interrupt)
        timer.start()
        ended = context.run("while True: print('x' * 300_000)")
        timer.join()
        assert ended.status == "interrupted" and {len(body) for _, body in ended.events} <= {1, 300_000}
        assert context.run("print('next')").stdout == "next\n"


def test_interrupt_between_runs_does_nothing(context):
    context.run("1")
    for _ in range(5):
        context.interrupt()
        time.sleep(0.02)
    assert context.run("2").value == "2"


def test_interrupts_in_a_row_do_not_end_the_runner(context):
    for round_number in range(5):
        context.start("import time\nprint('on')\nwhile True: time.sleep(0.001)")
        context.receive()
        for _ in range(20):
            context.interrupt()
            time.sleep(0.001)
        assert context.wait().status == "interrupted"
    assert context.run("'alive'").value == "'alive'"


def test_late_interrupt_never_hits_the_next_run(context):
    """The signal is sent before the next run is: wherever the last one is by then, the next does not see it."""
    hits, misses, delay_s, loops = 0, 0, 0.0, 1000
    for round_number in range(300):
        context.start(f"for i in range({loops}): pass\n" + ("1 / 0" if round_number % 3 == 0 else ""))
        time.sleep(delay_s)
        context.interrupt()
        if context.wait().status == "interrupted":  # the moment and the length are moved towards each other
            hits, delay_s = hits + 1, delay_s + 30e-6
        else:
            misses, loops = misses + 1, loops if delay_s else loops * 2
            delay_s = max(0.0, delay_s - 50e-6)
        assert context.run("sum(range(100))").value == "4950", f"round {round_number}"
    assert hits > 10 and misses > 10, "one side of the race was hardly seen"


def test_interrupt_does_not_cut_a_frame(context):
    """The run writes more than the socket holds, and nobody reads until it was interrupted."""
    for _ in range(10):
        context.start("import sys\nwhile True: sys.stdout.write('x' * 3_000_000 + '\\n')")
        time.sleep(0.05)
        context.interrupt()
        time.sleep(0.05)
        assert context.wait().status == "interrupted"
    assert context.run("'alive'").value == "'alive'"


def test_handler_of_one_run_is_not_that_of_the_next(context):
    context.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    context.start("import time\nwhile True: time.sleep(0.01)")
    context.interrupt()
    assert context.wait().status == "interrupted"


def test_input_reads_the_given_stdin(context):
    ended = context.run("a = input('name? ')\nb = input()\nprint(a, b)", stdin="Ada\nLovelace")
    assert (ended.stdout, ended.status) == ("name? Ada Lovelace\n", "ok")
    assert context.run("import sys; sys.stdin.read()", stdin="all\nof it").value == "'all\\nof it'"
    assert context.run("input(); input()", stdin="one\n").end["error"]["name"] == "EOFError"


def test_input_without_stdin_says_what_to_do(context):
    error = context.run("input('name? ')").end["error"]
    assert "pass the answers as stdin" in error["value"] and "streams.py" not in error["traceback"]


def test_data_frame_is_shown_as_text_html_and_data(context):
    ended = context.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})")
    (kind, bundle), = ended.results
    assert kind == "value" and b"<table" in bundle["text/html"] and b"a" in bundle["text/plain"]
    table = json.loads(bundle["application/vnd.cloche.table+json"])
    assert table["columns"] == ["a", "b"] and table["rows"] == [[1, "x"], [2, None]] and table["row_count"] == 2
    assert table["types"] == ["int64", "object"]


def test_large_data_frame_is_cut_and_says_so(context):
    bundle = context.run("import pandas as pd\npd.DataFrame({'n': range(50_000)})").results[0][1]
    table = json.loads(bundle["application/vnd.cloche.table+json"])
    assert len(table["rows"]) == 1000 and table["row_count"] == 50_000


def test_figures_left_open_are_shown_once(context):
    ended = context.run("import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.figure()\n    plt.plot([1, i])\n'end'")
    pictures = [bundle["image/png"] for _, bundle in ended.results if "image/png" in bundle]
    assert len(pictures) == 2 and all(picture.startswith(PNG) for picture in pictures)
    assert context.run("plt.get_fignums()").value == "[]"
    assert not [1 for _, bundle in context.run("1").results if "image/png" in bundle]


def test_shown_figures_come_in_their_place(context):
    ended = context.run("import matplotlib.pyplot as plt\nprint('before')\nplt.plot([1, 2]); plt.show()\nprint('after')")
    kinds = [header["type"] for header, body in ended.events if body.strip()]
    assert kinds == ["stdout", "result", "stdout"], kinds


def test_display_objects(context):
    ended = context.run("import cloche\ndisplay(cloche.HTML('<b>h</b>'), cloche.Markdown('*m*'), cloche.JSON({'k': [1]}))\n"
                        "display(cloche.SVG('<svg/>')); display(cloche.Latex('$x$')); display(7)\n"
                        f"cloche.Image({PNG!r})")
    shown = [bundle for _, bundle in ended.results]
    assert [bundle.get(kind) for bundle, kind in zip(shown, ("text/html", "text/markdown", "application/json",
                                                              "image/svg+xml", "text/latex", "text/plain", "image/png"))] == \
        [b"<b>h</b>", b"*m*", b'{"k": [1]}', b"<svg/>", b"$x$", b"7", PNG]


def test_code_for_notebooks_finds_its_names(context):
    ended = context.run("from IPython.display import display, HTML\ndisplay(HTML('<i>'))")
    assert ended.status == "ok" and ended.results[0][1]["text/html"] == b"<i>"


def test_own_ways_of_showing_and_those_that_fail(context):
    ended = context.run("class T:\n    def _repr_html_(self): return '<t>'\n    def _repr_png_(self): 1 / 0\n"
                        "    def _repr_mimebundle_(self, **k): return {'x/y': b'1', 'none/none': None}\nT()")
    bundle = ended.results[0][1]
    assert bundle["text/html"] == b"<t>" and bundle["x/y"] == b"1" and "image/png" not in bundle and "none/none" not in bundle


def test_progress_is_reported(context):
    ended = context.run("import cloche\ncloche.progress(0.4, 'training')\ncloche.progress(7)\ncloche.progress(text='thinking')")
    assert ended.progress == [(0.4, "training"), (1.0, ""), (None, "thinking")]
    assert context.run("cloche.progress(float('nan'))").end["error"]["name"] == "ValueError"


def test_tqdm_reports_progress(context):
    if context.run("import tqdm").status != "ok":
        pytest.skip("tqdm is not installed: apt-get install python3-tqdm")
    ended = context.run("import time\nfor i in tqdm.tqdm(range(5), desc='rows'): time.sleep(0.15)")
    fractions = [fraction for fraction, text in ended.progress]
    assert fractions and fractions[-1] == 1.0 and fractions == sorted(fractions)
    assert all(text.startswith("rows") for _, text in ended.progress)


def test_main_is_the_context(context):
    assert context.run("__name__").value == "'__main__'"
    ended = context.run("import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))).__name__")
    assert ended.value == "'P'"


def test_threads_may_print_while_and_after_a_run(context):
    context.run("import threading, time\ndef late():\n    time.sleep(0.3)\n    print('late')\n"
                "threading.Thread(target=late).start()")
    header, body = context.receive()
    assert header["type"] == "stdout" and header["run"] is None and body == b"late\n"


def test_many_threads_do_not_mix_their_frames(context):
    ended = context.run("import threading\nts = [threading.Thread(target=lambda: [print('x' * 3000) for _ in range(50)])\n"
                        "      for _ in range(8)]\nfor t in ts: t.start()\nfor t in ts: t.join()")
    assert ended.stdout.replace("\n", "") == "x" * 3000 * 50 * 8


def test_runner_ends_with_its_host():
    context = harness.Context()
    context.run("x = 1")
    assert context.close() == 0


def test_unknown_messages_are_refused_by_name(context):
    context.send({"type": "dance"})
    header, _ = context.receive()
    assert header["type"] == "refused" and "dance" in header["text"]
    assert context.run("1").value == "1"


def test_frame_that_is_too_large_ends_the_runner():
    context = harness.Context()
    context.socket.sendall(struct.pack("<II", 0xFFFFFFFF, 0))
    assert context.process.wait(10) == 0
    context.close()


def test_code_does_not_inherit_the_socket(context):
    assert context.run("import os, subprocess\nsubprocess.run(['ls', '/proc/self/fd'], capture_output=True, close_fds=False)"
                       ".stdout.split()").value.count("b'") <= 4


@pytest.mark.parametrize("code,state", [
    ("1", "complete"), ("if x:", "incomplete"), ("if x:\n    1", "incomplete"), ("if x:\n    1\n", "complete"), ("(1,", "incomplete"),
    ("(1,\n2)", "complete"), ("1 +* 2", "invalid"), ("'''a", "incomplete"), ("", "complete"), ("def f():\n\n    pass\n", "complete"),
])
def test_completeness_of_what_is_typed(context, code, state):
    context.send({"type": "complete"}, code.encode())
    header, _ = context.receive()
    assert (header["type"], header["text"]) == ("completeness", state)


# ---- what is typed, line by line ----

def pictures(ended):
    return [bundle["image/png"] for _, bundle in ended.results if "image/png" in bundle]


def test_figure_is_a_picture_as_value_and_by_display(context):
    ended = context.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); n = ax.plot([1, 2])\ndisplay(fig)\nfig")
    assert [kind for kind, bundle in ended.results if "image/png" in bundle] == ["display", "value"]  # and not once more at the end
    assert all(picture.startswith(PNG) for picture in pictures(ended))
    assert context.run("plt.get_fignums()").value == "[]"
    assert len(pictures(context.run("fig"))) == 1  # closed, but still a figure


def test_figure_that_is_typed_line_by_line_is_shown_when_it_changed(context):
    def shown(code):
        return pictures(context.run(code, typed=True))

    assert not shown("import matplotlib.pyplot as plt") and not shown("fig, ax = plt.subplots()")  # nothing is in it yet
    first = shown("n = ax.plot([1, 2])")
    assert len(first) == 1 and not shown("1 + 1") and not shown("plt.savefig('p.png')")
    second = shown("t = plt.title('x')")
    assert len(second) == 1 and second != first
    assert len(shown("t = plt.title('y'); plt.savefig('p.png')")) == 1  # to save is not to show
    assert not shown("1")
    assert context.run("len(set(map(tuple, plt.imread('p.png').reshape(-1, 4)))) > 2", typed=True).value == "True"  # not blank
    assert len(shown("fig.show()")) == 1 and len(shown("plt.show()")) == 1
    assert not shown("1") and context.run("plt.get_fignums()", typed=True).value == "[]"
    ended = context.run("n = plt.plot([1]); t = plt.title('$\\\\frac$')", typed=True)
    assert ended.status == "error" and context.run("1", typed=True).status == "ok"  # it is told once


def test_every_value_is_shown_of_what_is_typed(context):
    ended = context.run("1\nx = 2; x\n'é' * 2 ; x\n(3\n);  # quiet\nNone\nif x:\n    5\n_", typed=True)
    assert [bundle["text/plain"].decode() for _, bundle in ended.results] == ["1", "2", "2", "3"], ended.results
    assert context.run("1\n2").value == "2" and len(context.run("1\n2").results) == 1


def test_script_is_compiled_as_a_whole(context):
    ended = context.run("'What it does.'\nfrom __future__ import annotations\n'shown'\ndef f(x: Nowhere): pass\nf.__annotations__['x']", typed=True)
    assert [bundle["text/plain"] for _, bundle in ended.results] == [b"'shown'", b"'Nowhere'"], ended.end
    assert context.run("def g(x: Elsewhere): pass").status == "ok"  # it holds, as at Python's own prompt
    ended = context.run("print('never')\n1\nreturn", typed=True)
    assert (ended.status, ended.end["error"]["name"], ended.stdout) == ("error", "SyntaxError", "")


def test_texts_with_a_form_are_text_where_nothing_draws_it(context):
    ended = context.run("import cloche\nfor one in cloche.Markdown('*m*'), cloche.Latex('$x$'), cloche.JSON({'k': ['é']}): display(one)\n"
                        "print(cloche.Markdown('*m*'), cloche.HTML('<b>' * 100), cloche.Image(b'12345'))")
    assert [bundle["text/plain"].decode() for _, bundle in ended.results] == ["*m*", "$x$", '{"k": ["é"]}']
    assert ended.stdout.startswith("Markdown('*m*') HTML('<b><b>") and ended.stdout.endswith("…) <Image: 5 bytes>\n")


def test_exit_with_a_message_tells_it(context):
    ended = context.run("import sys\nprint('before')\nsys.exit('fatal: no data')")
    assert (ended.status, ended.end["exit_code"], ended.stderr) == ("exit", 1, "fatal: no data\n")
    assert context.run("sys.exit(4)").stderr == "" and context.run("sys.exit()").stderr == ""


def test_event_loop_is_not_in_a_traceback(context):
    ended = context.run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1 / 0\nawait f()")
    trace = ended.end["error"]["traceback"].splitlines()
    assert trace[1] == '  File "<run 1>", line 5, in <module>' and "asyncio/" not in "".join(trace), trace
    trace = context.run("asyncio.run(f())").end["error"]["traceback"]  # there it is the code's own
    assert '"<run 2>", line 1' in trace and "asyncio/" in trace


def test_warning_names_the_line_of_the_code_however_deep_it_thinks_it_is(context):
    code = "import warnings\ndef f():\n    warnings.warn('deep', stacklevel={level})\nf()"
    for number, (level, line) in enumerate([(1, 3), (2, 4), (3, 4), (9, 4)], 1):
        stderr = context.run(code.format(level=level)).stderr
        assert stderr.startswith(f"<run {number}>:{line}: UserWarning: deep\n"), stderr
