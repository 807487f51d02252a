"""What an interpreter does when its program is over: threads are waited for, and exit functions are called.

In a fork of a zygote most of those are libraries' own, and have nothing to do unless the program used the library; to find
that out each touches memory that is then copied. What is known of them is asked instead, in a few words."""
import atexit
import sys
import threading


def _handlers(logging):
    return [id(handler) for handler in logging._handlerList]


# By module: which function, and what of it is changed by a program that needs it.
KNOWN = {
    "logging": (lambda logging: logging.shutdown, _handlers),
    "PIL._imaging": (lambda imaging: imaging.clear_cache, lambda imaging: None),  # frees memory, which ends anyway
    "matplotlib._pylab_helpers": (lambda helpers: helpers.Gcf.destroy_all, lambda helpers: len(helpers.Gcf.figs)),
    "multiprocessing.util": (lambda util: util._exit_function,
                             lambda util: (len(util._finalizer_registry), len(sys.modules["multiprocessing.process"]._children))),
}

_prepared = []  # (function, module, what to look at, what it was)
_waited_for = None  # by how many functions of libraries, when threads end


def prepare():
    """Ahead, in a zygote: if all functions are known, they are called by us from now on, and only where there is need."""
    global _waited_for
    for name, (find, look) in KNOWN.items():
        module = sys.modules.get(name)
        try:
            function, state = (find(module), look(module)) if module else (None, None)
        except (AttributeError, KeyError):
            continue  # another version, of which we know nothing
        if module:
            _prepared.append((function, module, look, state))
    if atexit._ncallbacks() != len(_prepared):  # somebody else wants to be called: then as usual
        _prepared.clear()
        return
    atexit._clear()
    _waited_for = len(getattr(threading, "_threading_atexits", ()))


def run():
    if not _is_plain():
        threading._shutdown()
        atexit._run_exitfuncs()
    for function, module, look, state in _prepared:
        if look(module) != state:
            atexit.register(function)
    if atexit._ncallbacks():
        atexit._run_exitfuncs()


def _is_plain():
    """No thread but ours, and nobody asked to be called."""
    return (_waited_for is not None and not atexit._ncallbacks() and len(threading._active) == 1
            and len(getattr(threading, "_threading_atexits", ())) == _waited_for)
