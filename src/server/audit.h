/* The audit log: one JSON line a run, who ran what and how it ended, in DATA/audit/runs.jsonl.
 *
 * Theory of operation. The line is written at a run's end. That a run is under way is noted in a slot of
 * DATA/audit/underway, a small file that is mapped: a slot costs no system call, and its bytes outlive the
 * process, however it dies. At the next start a slot that is still taken is a run whose server died: its line
 * is written then, with the cause host_failure. So each run that started has exactly one line; one that was
 * written just before the death is found by its id and not written again.
 *
 * At 16 MB the file becomes runs.jsonl.1, and so on up to .8. Lines are not synced one by one: they survive
 * the server, a power cut may take the last ones. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdint.h>

enum {
    AUDIT_FILE_MAX = 16 << 20,
    AUDIT_FILES_KEPT = 8,
    AUDIT_SLOTS = 4096, /* runs under way at one time that a crash is recorded for */
    AUDIT_SLOT_SIZE = 1024,
};

struct audit;

/* Writes what a dead server could not; says how many runs that were. */
int audit_open(int data_fd, struct audit **ret, int *ret_lost, struct error *err);
void audit_close(struct audit *audit);

/* Notes what is known at the start: a JSON object as text. Returns a number for audit_end, -1 when it was not
 * noted. */
int audit_begin(struct audit *audit, const char *run_id, struct slice fields);

/* Writes the line, which ends with a newline, and frees the slot. */
void audit_end(struct audit *audit, int slot, struct slice line);

/* "2026-03-01T12:00:00.123Z", now. */
enum { AUDIT_TIME_SIZE = 32 };
void audit_time(char into[AUDIT_TIME_SIZE]);

/* For tests. */
void audit_set_file_max(struct audit *audit, int64_t bytes);
