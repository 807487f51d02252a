"""The JavaScript runner by itself: what a context prints, shows and reports, and how its runs end."""
import json
import re
import struct
import time

import harness
import pytest


def error_of(ended):
    assert ended.status == "error", ended.end
    return ended.end["error"]


def test_ready_tells_protocol_and_version(javascript):
    ready = javascript.ready
    assert (ready["type"], ready["protocol"], ready["language"]) == ("ready", 1, "javascript")
    assert int(ready["version"].split(".")[0]) >= 18


def test_declarations_modules_and_directory_stay(javascript):
    assert javascript.run("const os = require('os'); let x = 20; var v = 1; class A { n() { return 1 } }").status == "ok"
    assert javascript.run("function double(n) { return 2 * n }\nrequire('fs').mkdirSync('d'); process.chdir('d')").status == "ok"
    assert javascript.run("double(x) + new A().n() + v").value == "42"
    assert javascript.run("require('path').basename(process.cwd())").value == "'d'"
    assert javascript.run("_ + typeof os.cpus").value == "'dfunction'"


@pytest.mark.parametrize("first,second", [("let a = 1", "let a = 2; a"), ("const a = 1", "const a = 2; a"),
                                          ("class a {}", "let a = 2; a"), ("var a = 1", "function a() {}; a.length + 2"),
                                          ("let a = await 1", "let a = await 2; a"), ("const { a } = { a: 1 }", "const [a] = [2]; a")])
def test_names_can_be_declared_again(javascript, first, second):
    assert javascript.run(first).status == "ok"
    assert javascript.run(second).value == "2"


def test_other_kind_of_declaration_is_refused_with_a_reason(javascript):
    javascript.run("let a = 1")
    error = error_of(javascript.run("const a = 2"))
    assert error["name"] == "SyntaxError" and "in the same way only" in error["value"] and "runner.js" not in error["traceback"]
    assert javascript.run("a").value == "1"


def test_const_stays_constant(javascript):
    javascript.run("const c = 1")
    assert error_of(javascript.run("c = 2"))["name"] == "TypeError"


@pytest.mark.parametrize("code,value", [
    ("1 + 1", "2"), ("let x = 5", None), ("x = 5; x", "5"), ("undefined", None), ("null", "null"), ("'a'", "'a'"), ("10n", "10n"),
    ("-0", "-0"), ("NaN", "NaN"), ("Symbol('s')", "Symbol(s)"), ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("", None),
    ("// nothing", None), ("[1,\n 2]", "[ 1, 2 ]"), ("if (true) { 4 }", "4"), ("await Promise.resolve(3)", "3"),
    ("for (let i = 0; i < 2; i++) await i", "1"),
])
def test_value_of_the_last_expression(javascript, code, value):
    ended = javascript.run(code)
    assert (ended.status, ended.value) == ("ok", value)


@pytest.mark.parametrize("code,text", [
    ("({a: [1, {b: null}]})", '{"a":[1,{"b":null}]}'), ("[1, 'x']", '[1,"x"]'), ("new Date(0)", '"1970-01-01T00:00:00.000Z"'),
    ("new Map()", None), ("new Error('x')", None), ("7", None), ("let ring = []; ring.push(ring); ring", None), ("[1n]", None),
    ("({toJSON() { throw 1 }})", None),
])
def test_data_is_shown_as_json_too(javascript, code, text):
    (kind, bundle), = javascript.run(code).results
    assert kind == "value" and list(bundle)[0] == "text/plain"
    assert bundle.get("application/json") == (text.encode() if text else None)


def test_streams_keep_their_order(javascript):
    ended = javascript.run("for (let i = 0; i < 3; i++) { console.log(i); console.error(-i) }\nprocess.stdout.write('a'); 0")
    parts = [(header["type"], body.decode()) for header, body in ended.events][:-1]
    assert parts == [("stdout", "0\n"), ("stderr", "-0\n"), ("stdout", "1\n"), ("stderr", "-1\n"), ("stdout", "2\n"),
                     ("stderr", "-2\n"), ("stdout", "a")]


def test_output_comes_as_it_is_written(javascript):
    javascript.start("console.log('first'); const end = Date.now() + 1000; while (Date.now() < end); console.log('second')")
    started = time.monotonic()
    _, body = javascript.receive()
    assert body == b"first\n" and time.monotonic() - started < 0.8
    assert javascript.wait().stdout == "second\n"


def test_large_and_binary_output_is_whole(javascript):
    ended = javascript.run("process.stdout.write(Buffer.alloc(5e6, 0xff)); process.stdout.write(Buffer.from([0, 1])); 0")
    data = b"".join(body for header, body in ended.events if header["type"] == "stdout")
    assert data == b"\xff" * 5_000_000 + b"\x00\x01"


def test_ended_stdout_can_still_be_written(javascript):
    assert javascript.run("process.stdout.end('last'); process.stdout.destroy(); 0").stdout == "last"
    assert javascript.run("console.log('more')").stdout == "more\n"


def test_descriptors_one_and_two_are_left_to_other_programs(javascript):
    code = "require('child_process').execSync('echo from a child', {stdio: 'inherit'}); 0"
    assert javascript.run(code).status == "ok"
    javascript.socket.close()
    assert b"from a child" in javascript.process.communicate(timeout=10)[0]


def test_error_has_name_value_and_a_clean_stack(javascript):
    ended = javascript.run("function f(n) {\n  return n.x.y\n}\nf({})")
    error = error_of(ended)
    assert (error["name"], error["value"]) == ("TypeError", "Cannot read properties of undefined (reading 'y')")
    assert "at f (<run 1>:2:14)" in error["traceback"] and "<run 1>:4:1" in error["traceback"]
    assert not any(word in error["traceback"] for word in ("runner.js", "inspector", "cloche")), error["traceback"]
    assert javascript.run("'still here'").value == "'still here'"


def test_stack_and_cause_are_clean_wherever_they_are_shown(javascript):
    ended = javascript.run("try { try { null.x } catch (e) { throw new Error('outer', {cause: e}) } } catch (e) {\n"
                           "console.log(e.stack); console.error(e) }", name="my code.js")
    for text in (ended.stdout, ended.stderr):
        assert "my code.js:1:" in text and "runner.js" not in text and "inspector" not in text, text
    assert "[cause]: TypeError" in ended.stderr


def test_error_of_a_call_of_ours_shows_the_line_that_called(javascript):
    trace = error_of(javascript.run("1\ncloche.progress('much')"))["traceback"]
    assert "at <run 1>:2:8" in trace and "runner.js" not in trace, trace


def test_code_may_take_the_names_that_the_runner_uses(javascript):
    names = ["JSON", "Buffer", "Promise", "Error", "Map", "Object", "String", "Number", "Symbol", "Array", "Atomics", "process",
             "setImmediate", "setTimeout", "inspect", "Channel", "runner", "load", "modules", "loaded"]
    assert javascript.run("".join(f"let {name} = 0; " for name in names)).status == "ok"
    ended = javascript.run("console.log('on'); display(1); cloche.progress(0.5); [1, {a: 2}]")
    assert (ended.stdout, ended.value, ended.progress) == ("on\n", "[ 1, { a: 2 } ]", [(0.5, "")])
    assert error_of(javascript.run("null.x"))["name"] == "TypeError"
    assert error_of(javascript.run("x = = 1"))["name"] == "SyntaxError" and javascript.completeness("f(") == "incomplete"
    assert error_of(javascript.run("Object = null; globalThis.JSON = null; throw 1"))["value"] == "1"
    assert javascript.run("require('fs').readFileSync(0, 'utf8')", stdin="in").value == "'in'"


def test_programs_do_not_get_the_channel(javascript):
    code = ("const fs = require('fs'), list = 'for fd in /proc/$$/fd/*; do readlink $fd; done; true';"
            "require('child_process').execSync(list, {stdio: ['ignore', fs.openSync('list', 'w'), 'ignore']}); fs.readFileSync('list', 'utf8')")
    listed = javascript.run(code).value
    assert "/list" in listed and "socket:" not in listed, listed


def test_error_of_an_earlier_function_shows_its_own_lines(javascript):
    javascript.run("\nfunction g() { throw new RangeError('from g') }")
    assert "at g (<run 1>:2:22)" in error_of(javascript.run("g()"))["traceback"]


@pytest.mark.parametrize("code,place", [("x = (1,\ny = 2", "<run 1>:2\ny = 2\n     ^"), ("let a = 1\nlet b = = 2", "<run 1>:2\nlet b = = 2\n        ^")])
def test_syntax_error_shows_the_place_and_runs_nothing(javascript, code, place):
    error = error_of(javascript.run(f"{code}"))
    assert error["name"] == "SyntaxError" and error["traceback"].startswith(place), error["traceback"]
    assert "runner.js" not in error["traceback"]


def test_syntax_error_that_is_thrown_is_no_mistake_of_the_code(javascript):
    error = error_of(javascript.run("1\nJSON.parse('{')"))
    assert error["name"] == "SyntaxError" and "at <run 1>:2:6" in error["traceback"]


@pytest.mark.parametrize("code,value", [("throw 5", "5"), ("throw null", "null"), ("throw undefined", "undefined"),
                                        ("throw {a: 1}", "{ a: 1 }"), ("await Promise.reject('no')", "'no'")])
def test_anything_can_be_thrown(javascript, code, value):
    assert error_of(javascript.run(code))["value"] == value


@pytest.mark.parametrize("text", ["a\\0b", "\\ud800", "\\udc00\\ud800", "\\\\ud800 \\\\u0000"])
def test_error_with_odd_characters_is_one_that_the_host_can_read(javascript, text):
    javascript.start(f"throw new Error('{text}')")
    head, _ = struct.unpack("<II", javascript.read(8))
    header = javascript.read(head)
    assert json.loads(header)["error"]["name"] == "Error"
    for escape in re.findall(rb"\\\\|\\u....", header):
        assert not re.match(rb"\\u(0000|d[89a-f])", escape), header


def test_deep_recursion_is_an_error_of_the_run(javascript):
    assert error_of(javascript.run("function f() { f() }\nf()"))["name"] == "RangeError"
    assert javascript.run("1").value == "1"


def test_failing_inspect_does_not_fail_the_run(javascript):
    ended = javascript.run("({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') }})")
    assert ended.status == "ok" and "cannot be shown: Error: no" in ended.value


@pytest.mark.parametrize("code,exit_code", [
    ("process.exit(3); console.log('no')", 3), ("process.exit()", 0), ("process.exit(256 + 7)", 7),
    ("process.exitCode = 5; process.exit()", 5), ("try { process.exit(4) } catch {} finally { console.log('no') }", 4),
    ("await 1; process.exit(6); console.log('no')", 6), ("setTimeout(() => process.exit(8), 10); await new Promise(() => {})", 8),
    ("setImmediate(() => process.exit(9)); await new Promise(() => {})", 9),
    ("Promise.resolve().then(() => process.exit(2)); await new Promise(() => {})", 2),
])
def test_exit_ends_the_run_and_not_the_context(javascript, code, exit_code):
    for _ in range(2):
        ended = javascript.run("y = 1\n" + code)
        assert (ended.status, ended.end["exit_code"], ended.stdout) == ("exit", exit_code, "")
        assert javascript.run("await new Promise((done) => setTimeout(done, 5)); await y").value == "1"


def test_top_level_await(javascript):
    assert javascript.run("const slept = await new Promise((done) => setTimeout(done, 10, 'slept')); slept").value == "'slept'"
    assert javascript.run("for await (const n of (async function* () { yield 1; yield 2 })()) console.log(n)").stdout == "1\n2\n"
    javascript.run("const later = new Promise((done) => setTimeout(done, 50, 7))")
    assert javascript.run("await later").value == "7"


BUSY = ["while (true) n++", "await 1; while (true) n++", "setTimeout(() => { while (true) n++ }); await new Promise(() => {})",
        "await new Promise(() => { n = 9 })", "for (;;) { n++; await new Promise((done) => setTimeout(done, 5)) }",
        "try { while (true) n++ } finally { while (true) n++ }"]


@pytest.mark.parametrize("code", BUSY)
def test_interrupt_ends_the_run_and_keeps_the_state(javascript, code):
    for _ in range(2):
        javascript.start("var n = 1; console.log('on'); " + code)
        javascript.receive()
        time.sleep(0.1)
        started = time.monotonic()
        javascript.interrupt()
        ended = javascript.wait()
        assert ended.status == "interrupted" and ended.end["error"]["name"] == "Interrupted"
        assert time.monotonic() - started < 3
        assert javascript.run("await new Promise((done) => setTimeout(done, 5)); n > 0").value == "true"


@pytest.mark.parametrize("size", [10, 300_000])
def test_interrupt_cuts_no_frame(javascript, size):
    for round_number in range(6):
        javascript.start(f"while (true) console.log('x'.repeat({size}))")
        javascript.receive()
        time.sleep(0.01 * round_number)
        javascript.interrupt()
        ended = javascript.wait()
        assert ended.status == "interrupted" and {len(body) for _, body in ended.events} == {size + 1}
        assert javascript.run("console.log('next')").stdout == "next\n"


@pytest.mark.parametrize("code", ["const end = Date.now() + {0}; while (Date.now() < end); await new Promise(() => 0)",
                                  "globalThis.timer = setInterval(() => {{ const end = Date.now() + {0}; while (Date.now() < end); }}, 1); await new Promise(() => 0)"], ids=["once", "again and again"])
def test_interrupt_of_what_is_busy_for_just_as_long_as_it_is_waited_for(javascript, code):
    for round_number in range(24):
        javascript.start(code.format(94 + round_number % 12))
        time.sleep(0.002)
        javascript.interrupt()
        assert javascript.wait().status == "interrupted"
        assert javascript.run("clearInterval(globalThis.timer); 1").value == "1"


def test_interrupt_between_runs_does_nothing(javascript):
    javascript.run("1")
    for _ in range(5):
        javascript.interrupt()
        time.sleep(0.02)
    assert javascript.run("2").value == "2"


def test_interrupts_in_a_row_do_not_end_the_runner(javascript):
    for _ in range(4):
        javascript.start("console.log('on'); while (true);")
        javascript.receive()
        for _ in range(20):
            javascript.interrupt()
            time.sleep(0.001)
        assert javascript.wait().status == "interrupted"
        assert javascript.run("'alive'").value == "'alive'"


def test_what_nobody_catches_is_told_on_stderr(javascript):
    assert "Uncaught Error: lost\n    at <run 1>:1:16" in javascript.run("Promise.reject(new Error('lost')); 0").stderr
    stderr = javascript.run("setTimeout(() => { throw new TypeError('later') }, 5); 0").stderr
    stderr += javascript.run("await new Promise((done) => setTimeout(done, 50))").stderr
    assert "Uncaught TypeError: later" in stderr and "<run 2>:1:" in stderr
    assert javascript.run("1").value == "1"


def test_output_between_runs_belongs_to_none(javascript):
    javascript.run("setTimeout(() => console.log('late'), 500); 0")
    header, body = javascript.receive()
    assert (header["type"], header["run"], body) == ("stdout", None, b"late\n")


def test_stdin_can_be_read_in_every_way(javascript):
    assert javascript.run("require('fs').readFileSync(0, 'utf8')", stdin="all é\nof it").value == "'all é\\nof it'"
    assert javascript.run("require('fs').readFileSync('/dev/stdin', 'utf8')", stdin="x").value == "'x'"
    code = "let text = ''; for await (const part of process.stdin) text += part; text"
    assert javascript.run(code, stdin="Ada\nLovelace").value == "'Ada\\nLovelace'"
    code = ("const lines = []; for await (const line of require('readline').createInterface({input: process.stdin})) lines.push(line);"
            "lines.join('|')")
    assert javascript.run(code, stdin="a\nb\n").value == "'a|b'"
    assert javascript.run("require('child_process').execSync('cat', {stdio: [0, 'pipe', 'pipe']}).toString()", stdin="c").value == "'c'"


def test_without_stdin_there_is_nothing_to_read(javascript):
    javascript.run("0", stdin="of an earlier run")
    assert javascript.run("require('fs').readFileSync(0, 'utf8')").value == "''"
    assert javascript.run("let got = ''; for await (const part of process.stdin) got += part; got").value == "''"


def test_arguments_are_given(javascript):
    assert javascript.run("process.argv.slice(2)", arguments=["a", "b c"]).value == "[ 'a', 'b c' ]"


def test_require_and_import_look_from_the_working_directory(javascript):
    javascript.run("const fs = require('fs'); fs.writeFileSync('own.js', 'module.exports = 41');"
                   "fs.writeFileSync('own.mjs', 'export const n = 42; export default 43');"
                   "fs.mkdirSync('node_modules/pack', {recursive: true}); fs.writeFileSync('node_modules/pack/index.js', 'module.exports = 44');"
                   "fs.writeFileSync('data.json', '{\"k\": 45}')")
    assert javascript.run("require('./own')").value == "41"
    assert javascript.run("(await import('./own.mjs')).n").value == "42"
    assert javascript.run("import('./own.mjs').then((m) => m.default).then(console.log); await 0; await import('fs'); 0").stdout == "43\n"
    assert javascript.run("(await import('pack')).default + require('pack')").value == "88"
    assert javascript.run("require('./data.json').k").value == "45"
    assert javascript.run("import data from './data.json' with { type: 'json' }; data.k").value == "45"
    assert error_of(javascript.run("await import('no-such-package')"))["value"].startswith("Cannot find package 'no-such-package'")


@pytest.mark.parametrize("code", [
    "import fs from 'fs'\ntypeof fs.readFileSync", "import * as fs from \"fs\";typeof fs.readFileSync",
    "import { readFileSync } from 'node:fs'\ntypeof readFileSync", "import { readFileSync as r, } from 'fs'; typeof r",
    "import fs, { readFileSync as r } from 'fs'\ntypeof (r === fs.readFileSync && r)", "import fs, * as all from 'fs'\ntypeof all.default.readFileSync",
    "import {\n  readFileSync,\n  writeFileSync,\n} from 'fs'\ntypeof writeFileSync", "import 'fs'\ntypeof require('fs').readFileSync",
    "let text = `\nimport fs from 'nothing'\n`; import os from 'os'\ntypeof os.cpus",
])
def test_static_imports_work(javascript, code):
    for _ in range(2):
        assert javascript.run(code).value == "'function'"


def test_static_import_keeps_the_lines(javascript):
    error = error_of(javascript.run("import {\n  readFileSync\n} from 'fs'\nimport os from 'os'\nthrow new Error('here')"))
    assert "<run 1>:5:7" in error["traceback"]


def test_the_word_import_elsewhere_is_left_alone(javascript):
    code = "const o = {import(x) { return x }}; [o.import(1), 'import(2)', `import(3)${`import(4)`}`, /import(5)/.source /* import(6) */]"
    assert json.loads(javascript.run(code).results[0][1]["application/json"]) == [1, "import(2)", "import(3)import(4)", "import(5)"]


def test_display_objects(javascript):
    ended = javascript.run("display(new cloche.HTML('<b>h</b>')); display(new cloche.Markdown('*m*')); display(new cloche.JSON({k: [1]}));"
                           "display(new cloche.SVG('<svg/>')); display('<i>', {mime: 'text/html'}); display({a: 1}, {mime: 'application/json'});"
                           "display(7); display(new cloche.Latex('$x$')); new cloche.Image(Buffer.from([0x89, 0x50]))")
    shown = [bundle for _, bundle in ended.results]
    wanted = [("text/html", b"<b>h</b>"), ("text/markdown", b"*m*"), ("application/json", b'{"k":[1]}'), ("image/svg+xml", b"<svg/>"),
              ("text/html", b"<i>"), ("application/json", b'{"a":1}'), ("text/plain", b"7"), ("text/latex", b"$x$"), ("image/png", b"\x89P")]
    assert [bundle.get(kind) for bundle, (kind, _) in zip(shown, wanted)] == [content for _, content in wanted]
    assert [kind for kind, _ in ended.results] == ["display"] * 8 + ["value"]
    assert [shown[at]["text/plain"] for at in (1, 2, 7)] == [b"*m*", b'{"k":[1]}', b"$x$"]  # to be read where nothing draws it
    assert javascript.run("require('cloche').display === display").value == "true"
    assert error_of(javascript.run("display(1, {mime: 'nonsense'})"))["name"] == "TypeError"


def test_progress_is_reported(javascript):
    ended = javascript.run("cloche.progress(0.4, 'training'); cloche.progress(7); cloche.progress(null, 'thinking')")
    assert ended.progress == [(0.4, "training"), (1.0, ""), (None, "thinking")]
    assert error_of(javascript.run("cloche.progress('much')"))["name"] == "RangeError"


@pytest.mark.parametrize("code,answer", [
    ("1", "complete"), ("", "complete"), ("await f()", "complete"), ("import fs from 'fs'", "complete"), ("/* a */", "complete"),
    ("{", "incomplete"), ("foo(", "incomplete"), ("foo(1", "incomplete"), ("function f() {", "incomplete"), ("x.", "incomplete"),
    ("`a", "incomplete"), ("/* a", "incomplete"), ("let x =", "incomplete"), ("[1,", "incomplete"), ("if (a) {\n b", "incomplete"),
    ("a }", "invalid"), ("x = = 1", "invalid"), ("'abc", "invalid"), ("foo(1 2", "invalid"),
])
def test_completeness(javascript, code, answer):
    assert javascript.completeness(code) == answer


def test_unknown_messages_are_refused(javascript):
    javascript.send({"type": "dance"})
    assert javascript.receive()[0]["type"] == "refused"
    assert javascript.run("1").value == "1"


def test_runs_that_come_early_wait(javascript):
    javascript.start("await new Promise((done) => setTimeout(done, 50)); 'one'")
    javascript.send({"type": "run", "run": 2}, b"'two'")
    assert javascript.wait().value == "'one'"
    javascript.count = 2
    assert javascript.wait().value == "'two'"


@pytest.mark.parametrize("code", ["1", "setInterval(() => {}, 1000); 0"])
def test_runner_ends_with_its_socket(code):
    context = harness.JavaScriptContext()
    context.run(code)
    started = time.monotonic()
    assert context.close() == 0 and time.monotonic() - started < 3
