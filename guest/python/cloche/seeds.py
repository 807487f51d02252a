"""Random numbers of a zygote's forks, without a line of Python in each.

What the interpreter and its libraries do after a fork (os.register_at_fork) touches a thousand pages, to renew locks that
nobody holds and random numbers. Where nobody asked for more than that, generators are found here in the zygote, and their
state is filled from the kernel in each fork: guest/fork/seeds.c."""
import array
import ctypes
import os
import posix
import sys
import threading

# What these do is done, or needs not be done: no lock is held while an interpreter forks that has one thread, and `random` is
# given other numbers by ourselves.
SETTLED = {("threading", "_after_fork"), ("random", "Random.seed"), ("logging", "_after_at_fork_child_reinit_locks"),
           (None, "lock._at_fork_reinit")}
SETTLED_BEFORE = {("logging", "_acquireLock"), (None, "lock.acquire")}
_caches = []  # what empties them
_generators = []  # seeds of generators of `random`: its own, that of another copy of the module, and what the code asked for
_foreign = []  # what only the hook itself can put right in a fork


def _own_seed():
    return getattr(getattr(sys.modules.get("random"), "_inst", None), "seed", None)


def _name_of(hook):
    return getattr(hook, "__module__", None), getattr(hook, "__qualname__", "")


def watch_hooks():
    """Before anything is imported that has some, but `random`."""
    register = os.register_at_fork
    if _own_seed():
        _generators.append(_own_seed())

    def register_at_fork(**hooks):
        register(**hooks)
        hook = hooks.get("after_in_child")
        name = _name_of(hook)
        if "before" in hooks and _name_of(hooks["before"]) not in SETTLED_BEFORE:
            _foreign.append(hooks)
        elif name[1].endswith("cache_clear"):
            _caches.append(hook)
        elif name == ("random", "Random.seed"):
            _generators.append(hook)
        elif name not in SETTLED:
            _foreign.append(hooks)

    os.register_at_fork = posix.register_at_fork = register_at_fork


def has_hooks():
    """Did somebody ask for something at a fork that is not done without?"""
    return bool(_foreign) or "torch" in sys.modules


def clear_caches():
    for clear in _caches:
        clear()


def forget_names():
    """Of temporary files: the next are drawn at random again."""
    tempfile = sys.modules.get("tempfile")
    if tempfile:
        tempfile._name_sequence = None


def settle():
    """In a copy, in place of all hooks."""
    clear_caches()
    for seed in _generators:
        seed()
    threading.main_thread()._set_native_id()  # that of a copy is its own


def need_hooks(library):
    """Must hooks be called in each fork of this zygote? Else all is prepared for forks without. Once."""
    own = _own_seed()
    if has_hooks() or any(seed != own for seed in _generators):
        return True
    clear_caches()  # what is empty now is empty in every fork
    forget_names()
    return not (_find(library, "random", _state_of_random) and _find(library, "numpy.random", _state_of_numpy))


def _find(library, module, locate):
    """True when its generator is known to the library, or there is none."""
    if module not in sys.modules:
        return True
    try:
        address, state = locate(sys.modules[module])
    except (AttributeError, TypeError, ValueError, IndexError):
        return False  # of a kind that we do not know
    if address is None or ctypes.string_at(address, len(state)) != state:
        return False
    return bool(library.cloche_seeds_add(ctypes.c_void_p(address), ctypes.c_long(len(state))))


def _state_of_random(random):
    random.seed()  # so that numbers are drawn from the whole state, and none is left over
    state = array.array("I", random._inst.getstate()[1][:-1]).tobytes()
    at = ctypes.string_at(id(random._inst), random._inst.__sizeof__()).find(state)
    return (id(random._inst) + at if at > 0 else None), state


def _state_of_numpy(numpy_random):
    numpy_random.seed()
    name, keys, position = numpy_random.get_state()[:3]
    generator = numpy_random.mtrand._rand._bit_generator
    known = name == "MT19937" and position >= len(keys) - 1
    return (generator.ctypes.state_address if known else None), keys.astype("uint32").tobytes()
