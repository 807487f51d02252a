"""How far the code is: said by cloche.progress(), or by tqdm."""
import threading
import time

_report = None
_PERIOD_S = 0.1
_last_s = 0.0


def connect(report):
    """`report(fraction, text)` sends it to the host."""
    global _report
    _report = report


def progress(fraction=None, text=""):
    """Tells whoever waits for this run how far it is: a fraction from 0 to 1 (None: unknown), and a few words."""
    if fraction is not None:
        fraction = float(fraction)
        if fraction != fraction:
            raise ValueError("progress: the fraction is not a number")
        fraction = min(1.0, max(0.0, fraction))
    if _report:
        _report(fraction, str(text)[:500])


def follow_tqdm(module):
    """tqdm draws as it does; what it draws is reported too, a few times a second."""
    draw = module.tqdm.display

    def display(bar, *arguments, **options):
        global _last_s
        now_s = time.monotonic()
        if now_s - _last_s >= _PERIOD_S or (bar.total and bar.n >= bar.total):
            _last_s = now_s
            progress(bar.n / bar.total if bar.total else None, bar.desc or "")
        return draw(bar, *arguments, **options)

    module.tqdm.display = display
    # What it starts for itself could not be copied with a fork: a thread that looks after bars which are drawn seldom, and a
    # lock that processes share.
    module.tqdm.monitor_interval = 0
    module.tqdm.set_lock(threading.RLock())
