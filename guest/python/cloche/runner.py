"""The runner: a context's interpreter inside a box.

    python3 -m cloche.runner FD

Theory of operation. The host sends one run after the other over the socket FD; the runner executes each in the same
namespace, and sends what it prints, shows and reports as it happens, then how it ended. SIGINT ends a run as
KeyboardInterrupt; between runs it does nothing, and the host sends none before it has heard that a run has started. While
a frame is written it waits: half a frame would be the end of the context. When the host closes the socket the runner ends.
Everything that it says may be the words of the code that it runs: the host believes none of it but as that."""
import builtins
import importlib.abc
import importlib.util
import os
import resource
import signal
import socket
import sys
import threading
import time
import warnings

from . import execute, forking, preload, reporting, rich, script, seeds, streams, surroundings
from .wire import Channel, Closed, frame_of

PROTOCOL = 1
SOON_S = 0.0004  # that an order is waited for without sleep
READY = frame_of({"type": "ready", "run": None, "protocol": PROTOCOL, "language": "python", "version": sys.version.split()[0]})
VET_HEADER = b'{"type":"vet","run":null}'
FIGURES = "module://cloche.figures"


class Runner:
    def __init__(self, fd):
        self.channel = Channel(fd, threading.RLock())
        self.namespace = execute.Namespace()
        self.run_id = None
        self.count = 0
        self.is_running = False
        self.outputs = ()
        self.main_thread = threading.get_ident()
        self.frames_open = 0  # by the main thread, which is the one that a signal interrupts
        self.interrupt_waits = False
        self.is_interrupted = False  # this run was, and what came of it is not known yet
        self.view = None  # what the order to fork will find, if it was announced

    def send(self, message, body=b"", /, **fields):
        header = {"type": message, "run": self.run_id, **fields}
        if threading.get_ident() != self.main_thread:
            self.channel.send(header, body)
            return
        self.frames_open += 1
        try:
            self.channel.send(header, body)
        finally:
            self.frames_open -= 1
        if self.interrupt_waits and not self.frames_open:
            self.interrupt()

    def show(self, kind, bundle):
        self.flush()
        bundle, left_out = rich.fitting(bundle)
        if left_out:
            print(f"cloche: too large to be shown, and left out: {', '.join(left_out)}", file=sys.stderr, flush=True)
        streams.let_pipes_dry()
        body = b"".join(bundle.values())
        self.send("result", body, kind=kind, media=[[name, len(content)] for name, content in bundle.items()])

    def flush(self):
        for output in self.outputs:
            output.flush()

    def prepare(self):
        """The surroundings that code expects of a notebook; a program that we become has its own."""
        if self.outputs:
            return
        self.outputs = streams.make_outputs(self.send, self.channel.lock)
        sys.stdout, sys.stderr = self.outputs
        builtins.input = streams.read_answer
        sys.unraisablehook = self.hear_ignored
        self.prepare_showing()
        reporting.connect(lambda fraction, text: self.send("progress", fraction=fraction, text=text))
        sys.meta_path.insert(0, AfterImport({"tqdm.std": reporting.follow_tqdm}))

    def prepare_showing(self):
        builtins.display = rich.display
        warnings.warn = execute.warner(warnings.warn, self.namespace.variables)
        rich.connect(self.show)
        sys.meta_path.append(NotebookNames())
        if preload.held_figures:
            sys.meta_path.insert(0, HeldFigures())
        os.environ["MPLBACKEND"] = FIGURES
        if "matplotlib" in sys.modules:  # imported before there was a run: it has chosen another one
            sys.modules["matplotlib"].use(FIGURES)

    def take_signal(self):
        """What the code of a run did to SIGINT holds until its end."""
        signal.signal(signal.SIGINT, self.interrupt)

    def interrupt(self, _number=None, _frame=None):
        if not self.is_running:
            return
        if self.frames_open:
            self.interrupt_waits = True
            return
        self.is_running = self.interrupt_waits = False  # once a run: a second must not hit us while we tell of the first
        self.is_interrupted = True
        raise KeyboardInterrupt

    def hear_ignored(self, ignored):
        """Where Python ignores exceptions (in __del__, in what is called around a fork) an interrupt is lost: it comes again."""
        if not self.is_interrupted or ignored.exc_type is not KeyboardInterrupt or threading.get_ident() != self.main_thread:
            sys.__unraisablehook__(ignored)
            return
        self.is_interrupted, self.is_running = False, True
        threading.Thread(target=interrupt_again, daemon=True).start()

    def serve(self):
        """Until the host is gone, or there is a program to become: that is returned."""
        self.say_ready()
        return self.take_orders()

    def take_orders(self):
        while True:
            try:
                header, body = self.channel.receive()
            except Closed:
                return None
            forking.reap()
            if header.get("type") == "main":
                return script.Script(header, body)
            if header.get("type") == "soon":
                self.channel.expect(SOON_S)
                continue
            if header.get("type") == "run":
                self.view = None
                self.prepare()
                surroundings.start_timers()
                self.run(header, body)
            elif header.get("type") == "look":
                self.view = self.look_around()
            elif header.get("type") == "fork":
                self.fork(header)
            elif header.get("type") == "zygote":
                forking.check()
                trial = self.write_trial()
                self.say_ready()  # and not a byte is read by us from now on
                forking.serve_as_zygote(self.channel.fd, header.get("landlock", 0), header.get("plain", False), trial)
            elif header.get("type") == "preload":
                preload.load(header.get("modules", []), header.get("forks", True))
                self.say_ready()
            elif header.get("type") == "complete":
                self.send("completeness", text=execute.completeness(body.decode("utf-8", "replace")))
            else:
                self.send("refused", text=f"there is no message '{header.get('type')}'")

    def say_ready(self):
        os.write(self.channel.fd, READY)  # nobody else writes then, and it is small

    def write_trial(self):
        """The orders of a copy that does what those of a zygote do, up to the end of a program."""
        own, host = (part.detach() for part in socket.socketpair())
        orders = Channel(os.dup(host), threading.RLock())
        orders.send({"type": "soon"})
        limits = [[number, resource.getrlimit(number)[1]] for number in script.LIMITS]
        orders.send({"type": "main", "waits": True, "path": "/code/main.py", "arguments": [], "command": [], "environment": [],
                     "rlimits": limits, "vet": {"mode": "warn"}}, script.MOST)
        os.write(orders.fd, b"g")
        orders.close()
        return own, host

    def become(self, program):
        """Does not return."""
        report = program.report()
        if report:
            self.channel.write(VET_HEADER, report)
        if program.waits and not self.channel.pending and not os.read(self.channel.fd, 1):
            os._exit(0)  # the host is gone
        if program.cell is None:
            self.channel.close()
        else:
            program.evaluate = lambda module: self.evaluate_cell(program, module)
        program.run()

    def evaluate_cell(self, program, module):
        """A program whose streams are its own, and whose values go over the channel."""
        del module.__file__  # a cell is in no file
        self.namespace.move_to(module)
        self.prepare_showing()
        self.run_and_show(importlib.util.decode_source(program.cell), program.path, False)

    def look_around(self):
        """What a copy is to find again (or nothing: no code was run), and why there can be none. Descriptors that came are apart."""
        self.flush()
        try:
            forking.check()
            self.namespace.check_idle()
            return (forking.look_around(self.channel.received_fds, self.namespace.loop) if self.count else None), None
        except (forking.Refused, OSError) as error:
            return None, error

    def fork(self, header):
        """The copy goes on where we are, with a host and a box of its own, and says that it is ready."""
        (around, obstacle), self.view = self.view or self.look_around(), None
        fds = self.channel.take_fds()
        try:
            if obstacle:
                raise obstacle
            if forking.fork(fds, header.get("landlock", 0), around):
                self.begin_as_copy(around)
                return
        except (forking.Refused, OSError) as error:
            self.send("refused", text=str(error))
        for fd in fds:
            os.close(fd)

    def begin_as_copy(self, around):
        if around and around.failure:
            self.send("refused", text=around.failure)
            os._exit(1)
        self.namespace.leave_loop()
        self.say_ready()
        if not around or not around.files:
            surroundings.remember_streams()

    def run(self, header, body):
        self.run_id = header.get("run")
        self.count += 1
        started = time.perf_counter()
        streams.find_pipes()
        sys.stdin = streams.Input(header.get("stdin"))
        sys.argv = ["", *header.get("arguments", [])]
        end = {"status": "ok"}
        try:
            self.execute(body.decode("utf-8"), header.get("name") or f"<run {self.count}>", header.get("typed", False))
        except SystemExit as error:
            end = {"status": "exit", "exit_code": exit_code(error)}
            self.tell_exit(error)
        except KeyboardInterrupt as error:
            end = {"status": "interrupted", "error": execute.describe(error)}
        except BaseException as error:
            end = {"status": "error", "error": execute.describe(error)}
        self.take_signal()
        self.flush()
        self.send("end", duration_us=int((time.perf_counter() - started) * 1e6), **end)
        self.run_id = None

    def tell_exit(self, error):
        """sys.exit("a message") says it on stderr, as the interpreter does."""
        if error.code is not None and not isinstance(error.code, int):
            text = execute.text_of(error.code)
            self.flush()
            self.send("stderr", f"{text}\n".encode("utf-8", "replace"))

    def execute(self, source, name, typed):
        """The part of a run that can be interrupted. An interrupt that comes in the last moment, while this is left, still
        comes out of it: nothing behind it is ever hit."""
        try:
            self.interrupt_waits = self.is_interrupted = False
            self.is_running = True
            self.send("started")
            self.run_and_show(source, name, typed)
        finally:
            self.is_running = False

    def run_and_show(self, source, name, typed):
        execute.run(self.namespace, source, name, typed, lambda value: self.show("value", rich.bundle(value)))
        if "matplotlib.pyplot" in sys.modules and "cloche.figures" in sys.modules:
            sys.modules["cloche.figures"].end_run(typed)


def interrupt_again():
    time.sleep(0.01)  # or it would come where it was lost
    os.kill(os.getpid(), signal.SIGINT)


def exit_code(error):
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when the code has imported it."""

    def __init__(self, wanted):
        self.wanted = wanted

    def find_spec(self, name, path=None, target=None):
        follow = self.wanted.pop(name, None)
        if not follow:
            return None
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute_module = spec.loader.exec_module

            def exec_module(module):
                execute_module(module)
                follow(module)

            spec.loader.exec_module = exec_module
        return spec


class HeldFigures(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "cloche.figures" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(preload.held_figures, module.__dict__)


class NotebookNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`from IPython.display import display, HTML` works where IPython is not installed: code for notebooks says so."""

    def find_spec(self, name, path=None, target=None):
        if name in ("IPython", "IPython.display"):
            return importlib.util.spec_from_loader(name, self, is_package=name == "IPython")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        for name in ("HTML", "JSON", "SVG", "Image", "Latex", "Markdown", "display"):
            setattr(module, name, getattr(rich, name))
        module.get_ipython = lambda: None


def main():
    seeds.watch_hooks()
    surroundings.remember_streams()
    runner = Runner(int(sys.argv[1]))
    os.set_inheritable(runner.channel.fd, False)
    runner.take_signal()
    program = runner.serve()
    if program:
        runner.become(program)


if __name__ == "__main__":
    main()
