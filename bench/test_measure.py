"""Tests of the measuring itself: a benchmark that errs is worse than none.

Run: /usr/bin/python3 -B bench/test_measure.py
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import contenders
import measure
import report

BENCH = Path(__file__).resolve().parent


def shell(key, script, runs=3):
    contender = measure.Contender(key, key, lambda number: ["/bin/sh", "-c", script])
    contender.runs_wanted = runs
    return contender


class Quantiles(unittest.TestCase):
    def test_a_quantile_is_a_value_that_was_seen(self):
        values = [float(value) for value in range(1, 101)]
        self.assertEqual(measure.quantile(values, 0.50), 50.0)
        self.assertEqual(measure.quantile(values, 0.99), 99.0)
        self.assertEqual(measure.quantile([7.0], 0.99), 7.0)

    def test_the_order_of_the_values_does_not_matter(self):
        self.assertEqual(measure.quantile([3.0, 1.0, 2.0], 0.5), 2.0)

    def test_no_values_give_no_figures(self):
        self.assertEqual(measure.summary([]), {})


class Rounds(unittest.TestCase):
    def test_slow_contenders_are_spread_over_all_rounds(self):
        taken = [number for number in range(200) if measure.takes_part(number, 200, 50)]
        self.assertEqual(len(taken), 50)
        gaps = {after - before for before, after in zip(taken, taken[1:])}
        self.assertEqual(gaps, {4})

    def test_every_contender_runs_once_a_round(self):
        both = [shell("a", "echo 1"), shell("b", "echo 1")]
        measure.interleave(both, 3, pause_s=0)
        self.assertEqual([len(contender.times_ms()) for contender in both], [3, 3])

    def test_a_contender_that_always_fails_is_given_up_and_says_so(self):
        broken = shell("broken", "exit 1", runs=30)
        measure.interleave([broken], 30, pause_s=0)
        self.assertEqual(len(broken.failures()), measure.FAILURES_IN_A_ROW_LIMIT)
        self.assertIn("given up", broken.note)


class OneRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        measure.become_subreaper()

    def why(self, script, **options):
        return measure.run_once(["/bin/sh", "-c", script], **options).why

    def test_the_right_output_counts(self):
        self.assertEqual(self.why("echo 1"), "")

    def test_noise_on_stderr_is_allowed(self):
        self.assertEqual(self.why("echo careful >&2; echo 1"), "")

    def test_the_wrong_output_does_not_count(self):
        self.assertIn("printed b'2\\n'", self.why("echo 2"))
        self.assertIn("printed", self.why("echo 1; echo 1"))
        self.assertIn("printed b''", self.why("true"))

    def test_a_wrong_exit_code_does_not_count_and_quotes_stderr(self):
        self.assertEqual(self.why("echo 1; echo boom >&2; exit 3"), "exit code 3: boom")

    def test_a_signal_is_named(self):
        self.assertEqual(self.why("kill -9 $$"), "signal 9")

    def test_a_hanging_command_is_ended(self):
        start = time.monotonic()
        self.assertIn("no end within", self.why("sleep 60", timeout_s=0.2))
        self.assertLess(time.monotonic() - start, 5)

    def test_much_output_does_not_block_the_command(self):
        self.assertIn("printed", self.why("head -c 3000000 /dev/zero", timeout_s=10))

    def test_an_absent_program_is_a_failure_in_words(self):
        self.assertIn("could not start", measure.run_once(["/nonexistent"]).why)

    def test_the_time_is_that_of_the_command(self):
        sample = measure.run_once(["/bin/sh", "-c", "sleep 0.2; echo 1"])
        self.assertGreaterEqual(sample.elapsed_ms, 200)
        self.assertLess(sample.elapsed_ms, 1000)

    def test_what_runs_on_behind_the_exit_is_waited_for_but_not_timed(self):
        sample = measure.run_once(["/bin/sh", "-c", "sleep 0.4 & echo 1"])
        self.assertEqual(sample.why, "")
        self.assertLess(sample.elapsed_ms, 300)
        self.assertGreater(sample.settle_ms, 200)
        self.assertEqual(measure.child_pids(), [])

    def test_no_descriptor_is_leaked(self):
        before = len(os.listdir("/proc/self/fd"))
        for script in ("echo 1", "exit 1"):
            self.why(script)
        measure.run_once(["/nonexistent"])
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Reports(unittest.TestCase):
    def test_a_missing_contender_keeps_its_row_and_its_reason(self):
        gone = measure.absent("gone", "gone runtime", "gone is not installed")
        self.assertIn("missing: gone is not installed", report.table([gone]))
        record = report.contender_record(gone)
        self.assertEqual((record["missing"], record["n"]), ("gone is not installed", 0))

    def test_failed_runs_are_shown_and_not_timed(self):
        shaky = shell("shaky", "exit 1")
        measure.interleave([shaky], 3, pause_s=0)
        self.assertIn("every run failed", report.table([shaky]))
        self.assertEqual(report.contender_record(shaky)["failed"], 3)

    def test_an_unmeasured_target_is_missed(self):
        self.assertFalse(report.Target("promise", None, 5.0, reason="no runs").met())

    def test_ahead_means_strictly_less(self):
        self.assertTrue(report.Target("within", 5.0, 5.0).met())
        self.assertFalse(report.Target("ahead", 5.0, 5.0, strict=True).met())


class Scripts(unittest.TestCase):
    def run_script(self, *arguments):
        with tempfile.TemporaryDirectory() as out:
            return subprocess.run(
                [BENCH / arguments[0], *arguments[1:], "--out", out],
                capture_output=True,
                text=True,
                check=False,
            )

    def test_cold_start_without_cloche_fails_and_says_why(self):
        done = self.run_script(
            "cold_start", "--runs", "1", "--no-check", "--cloche", "/nonexistent/cloche",
            "--only", "native,cloche-container",
        )  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("/nonexistent/cloche does not exist", done.stdout)
        self.assertIn("not asked for", done.stdout)

    def test_launcher_memory_without_cloche_fails_and_says_why(self):
        done = self.run_script("launcher_memory", "--cloche", "/nonexistent/cloche")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("/nonexistent/cloche does not exist", done.stdout)


class Factories(unittest.TestCase):
    def test_a_factory_that_raises_missing_becomes_a_row(self):
        def make(_stage):
            raise measure.Missing("not today")

        class Nowhere:
            def keep(self):
                return ()

        (row,) = contenders.gather([("x", "x", "peer", make)], Nowhere())
        self.assertEqual(row.missing, "not today")


if __name__ == "__main__":
    unittest.main()
