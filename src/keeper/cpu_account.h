/* What a box has used of the CPU, and how much of that was charged to somebody.
 *
 * Runs and commands in one box overlap, and each is told what the box used meanwhile; a quota must not count
 * that twice. So whoever ends is charged with what nobody was charged with before. What a box uses between
 * them is for the next one; what it used before the first is for nobody. An account outlives its box: a
 * command that took its box away with it, or lost it, still finds the sum. All functions take NULL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu_account;

/* NULL without memory. */
struct cpu_account *cpu_account_new(void);
struct cpu_account *cpu_account_hold(struct cpu_account *account);
void cpu_account_put(struct cpu_account *account);

/* Somebody begins: the first one is not charged with what was used before. */
void cpu_account_begin(struct cpu_account *account, int64_t used_us);

/* What the box has used by now. is_final: it is gone. */
void cpu_account_note(struct cpu_account *account, int64_t used_us, bool is_final);

/* As it was noted last; with wait_ms, the final sum is waited for, and -1 tells that it did not come. */
int64_t cpu_account_used_us(struct cpu_account *account, int64_t wait_ms);

/* What nobody was charged with before, which is the caller's now. */
int64_t cpu_account_charge_us(struct cpu_account *account);
