/* What a box has used of the CPU, and how much of that was charged to somebody.
 *
 * Runs and commands in one box overlap, and each is told what the box used meanwhile; a quota must not count
 * that twice. So whoever ends is charged with what nobody was charged with before. What a box uses between
 * them is for the next one, or for the bill of the box's owner, whichever comes first: nothing that goes on
 * in a box behind its runs is for nobody. Only what it used before the first is. An account outlives its box:
 * a command that took its box away with it, or lost it, still finds the sum. All functions take NULL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu_account;

/* What an owner of boxes is still to be charged with. */
struct cpu_bill;

/* NULL without memory. */
struct cpu_bill *cpu_bill_new(void);
struct cpu_bill *cpu_bill_hold(struct cpu_bill *bill);
void cpu_bill_put(struct cpu_bill *bill);

/* What is on it, and is the caller's now. */
int64_t cpu_bill_take_us(struct cpu_bill *bill);

/* NULL without memory. The bill gets the rest when nobody holds the account any more; NULL: nobody does. */
struct cpu_account *cpu_account_new(struct cpu_bill *bill);
struct cpu_account *cpu_account_hold(struct cpu_account *account);
void cpu_account_put(struct cpu_account *account);

/* Puts on the bill what nobody was charged with yet. */
void cpu_account_settle(struct cpu_account *account);

/* Somebody begins: the first one is not charged with what was used before. */
void cpu_account_begin(struct cpu_account *account, int64_t used_us);

/* What the box has used by now. is_final: it is gone. */
void cpu_account_note(struct cpu_account *account, int64_t used_us, bool is_final);

/* As it was noted last; with wait_ms, the final sum is waited for, and -1 tells that it did not come. */
int64_t cpu_account_used_us(struct cpu_account *account, int64_t wait_ms);

/* What nobody was charged with before, which is the caller's now. */
int64_t cpu_account_charge_us(struct cpu_account *account);
