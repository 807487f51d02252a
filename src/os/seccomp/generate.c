/* Build-time tool: turns the policy table into BPF programs (a C header) and into a table for the tests.
 *
 *   seccomp-generate header > seccomp_programs.h
 *   seccomp-generate table  > seccomp_policy.tsv
 *
 * libseccomp is asked for the numbers of calls. The programs themselves are laid out here, because a
 * libseccomp filter that denies by default cannot say "all values but these", nor give each call its own
 * errno together with conditions, and both are what the policy is made of. The layout is a binary search over
 * ranges of equal verdict: about eight comparisons for any call, and no load of arguments on the way to an
 * unconditional allow, which is what lets the kernel answer those from its bitmap. */
#include "os/seccomp/policy.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 1024, PROGRAM_MAX = 4096 };

static const char *const variant_names[POLICY_VARIANTS] = {"container", "container_granted", "process",
                                                           "process_shared_uid", "process_zygote"};

/* Which row answers for a number; NULL: none. */
static const struct policy_row *row_of[NUMBERS];

static uint32_t verdict_value(enum policy_verdict verdict)
{
    switch (verdict) {
    case VERDICT_ALLOW:
        return SECCOMP_RET_ALLOW;
    case VERDICT_EPERM:
        return SECCOMP_RET_ERRNO | EPERM;
    case VERDICT_ENOSYS:
        return SECCOMP_RET_ERRNO | ENOSYS;
    case VERDICT_ENOTSUP:
        return SECCOMP_RET_ERRNO | ENOTSUP;
    case VERDICT_KILL:
        return SECCOMP_RET_USER_NOTIF;
    case VERDICT_ASK:
        return SECCOMP_RET_USER_NOTIF |
               1; /* the low bits mean nothing to the kernel: they tell ASK from KILL */
    }
    abort();
}

static void rows_resolve(void)
{
    for (size_t i = 0; i < policy_row_count; i++) {
        const struct policy_row *row = &policy_rows[i];
        int number = row->number;
        if (number < 0)
            number = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, row->name);
        if (number < 0 || number >= NUMBERS) {
            fprintf(stderr, "seccomp-generate: no number for '%s'\n", row->name);
            exit(1);
        }
        if (row_of[number]) {
            fprintf(stderr, "seccomp-generate: '%s' is in the table twice\n", row->name);
            exit(1);
        }
        row_of[number] = row;
    }
}

/* Built from its end, since jumps lead forward only: where one leads is there before it. code[0] is the last
 * instruction, and a label is the length that the program had when its instruction was added. */
struct program {
    struct sock_filter code[PROGRAM_MAX];
    size_t length;
    size_t returns[VERDICT_ASK + 1]; /* of each verdict the one that was added last; 0: none yet */
};

static size_t emit(struct program *program, uint16_t code, size_t if_true, size_t if_false, uint32_t k)
{
    size_t next = program->length; /* the label of what follows */
    if (program->length == PROGRAM_MAX || next - if_true > UINT8_MAX || next - if_false > UINT8_MAX)
        abort();
    program->code[program->length] =
        (struct sock_filter){code, (uint8_t)(next - if_true), (uint8_t)(next - if_false), k};
    return ++program->length;
}

static size_t emit_plain(struct program *program, uint16_t code, uint32_t k)
{
    return emit(program, code, program->length, program->length, k);
}

/* Can a jump reach it, from among the next few instructions? */
static bool is_near(const struct program *program, size_t label)
{
    return label && program->length - label < 240;
}

/* One return serves all who can reach it: the kernel's work with a filter grows with its length. */
static size_t return_near(struct program *program, enum policy_verdict verdict)
{
    if (!is_near(program, program->returns[verdict]))
        program->returns[verdict] = emit_plain(program, BPF_RET | BPF_K, verdict_value(verdict));
    return program->returns[verdict];
}

static enum policy_verdict plain_verdict(int number, enum policy_variant variant)
{
    return row_of[number] ? row_of[number]->verdict[variant] : VERDICT_ENOSYS;
}

static bool check_applies(const struct policy_check *check, enum policy_variant variant)
{
    return check->where == IN_ALL || (check->where >> variant & 1);
}

static size_t checks_in(const struct policy_row *row, enum policy_variant variant)
{
    size_t count = 0;
    for (int i = 0; row && i < row->checks; i++)
        count += check_applies(&row->check[i], variant);
    return count;
}

/* Where the filter goes on for some numbers. */
struct target {
    size_t label; /* 0: it ends, with … */
    enum policy_verdict verdict;
};

static size_t reach(struct program *program, struct target target)
{
    if (!target.label)
        return return_near(program, target.verdict);
    return is_near(program, target.label)
               ? target.label
               : emit_plain(program, BPF_JMP | BPF_JA, (uint32_t)(program->length - target.label));
}

static bool keeps_argument(const struct policy_condition *condition)
{
    return condition->any_set || condition->mask == UINT32_MAX;
}

static size_t emit_condition(struct program *program, const struct policy_condition *condition,
                             bool is_loaded, size_t if_true, size_t if_false)
{
    size_t label = condition->any_set
                       ? emit(program, BPF_JMP | BPF_JSET | BPF_K, if_true, if_false, condition->mask)
                       : emit(program, BPF_JMP | BPF_JEQ | BPF_K, if_true, if_false, condition->value);
    if (!keeps_argument(condition))
        label = emit_plain(program, BPF_ALU | BPF_AND | BPF_K, condition->mask);
    if (is_loaded)
        return label;
    return emit_plain(program, BPF_LD | BPF_W | BPF_ABS,
                      (uint32_t)(offsetof(struct seccomp_data, args) + 8U * condition->argument +
                                 (condition->is_high ? sizeof(uint32_t) : 0)));
}

/* All of its conditions hold, or `next`. */
static size_t emit_check(struct program *program, const struct policy_check *check, bool is_loaded,
                         size_t next)
{
    size_t label = return_near(program, check->verdict);
    for (int i = check->conditions - 1; i >= 0; i--)
        label = emit_condition(program, &check->condition[i], is_loaded && i == 0, label, next);
    return label;
}

/* Is the argument that it looks at first there from the check before, which is the only way to it? */
static bool finds_argument(const struct policy_row *row, int number, enum policy_variant variant)
{
    int before = number - 1;
    while (before >= 0 && !check_applies(&row->check[before], variant))
        before--;
    const struct policy_condition *first = &row->check[number].condition[0];
    return before >= 0 && row->check[before].conditions == 1 &&
           keeps_argument(&row->check[before].condition[0]) &&
           row->check[before].condition[0].argument == first->argument &&
           row->check[before].condition[0].is_high == first->is_high;
}

/* All numbers of a range get the same treatment: a plain verdict, or one row with checks. */
static struct target emit_leaf(struct program *program, int first, enum policy_variant variant)
{
    const struct policy_row *row = row_of[first];
    struct target target = {.verdict = plain_verdict(first, variant)};
    for (int i = row ? row->checks - 1 : -1; i >= 0; i--)
        if (check_applies(&row->check[i], variant))
            target.label =
                emit_check(program, &row->check[i], finds_argument(row, i, variant), reach(program, target));
    return target;
}

struct range {
    int first;
};

static size_t ranges_find(struct range *ranges, enum policy_variant variant)
{
    size_t count = 0;
    for (int number = 0; number < NUMBERS; number++) {
        bool same = number > 0 && !checks_in(row_of[number], variant) &&
                    !checks_in(row_of[number - 1], variant) &&
                    plain_verdict(number, variant) == plain_verdict(number - 1, variant);
        if (!same)
            ranges[count++].first = number;
    }
    return count;
}

static struct target emit_search(struct program *program, const struct range *ranges, size_t count,
                                 enum policy_variant variant)
{
    if (count == 1)
        return emit_leaf(program, ranges[0].first, variant);
    size_t middle = count / 2;
    struct target right = emit_search(program, ranges + middle, count - middle, variant);
    struct target left = emit_search(program, ranges, middle, variant);
    size_t if_greater = reach(program, right), if_less = reach(program, left);
    return (struct target){.label = emit(program, BPF_JMP | BPF_JGE | BPF_K, if_greater, if_less,
                                         (uint32_t)ranges[middle].first)};
}

static void program_make(struct program *program, enum policy_variant variant)
{
    static struct range ranges[NUMBERS];
    size_t count = ranges_find(ranges, variant);
    *program = (struct program){0};
    size_t search = reach(program, emit_search(program, ranges, count, variant));
    size_t refusal = return_near(program, VERDICT_ENOSYS);
    /* Also everything past the table, and with it the x32 bit. */
    emit(program, BPF_JMP | BPF_JGE | BPF_K, refusal, search, NUMBERS);
    size_t number = emit_plain(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, number, refusal, AUDIT_ARCH_X86_64);
    emit_plain(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
}

static void print_header(void)
{
    printf("/* Made by seccomp-generate from os/seccomp/policy.c. */\n#pragma once\n\n#include "
           "<linux/filter.h>\n");
    static struct program program;
    for (int variant = 0; variant < POLICY_VARIANTS; variant++) {
        program_make(&program, (enum policy_variant)variant);
        printf("\nstatic const struct sock_filter seccomp_program_%s[%zu] = {\n", variant_names[variant],
               program.length);
        for (size_t i = program.length; i-- > 0;)
            printf("    {0x%x, %u, %u, 0x%x},\n", program.code[i].code, program.code[i].jt,
                   program.code[i].jf, program.code[i].k);
        printf("};\n");
    }
    printf("\nstatic const struct {\n    int number;\n    const char *name;\n} seccomp_names[] = {\n");
    for (int number = 0; number < NUMBERS; number++)
        if (row_of[number])
            printf("    {%d, \"%s\"},\n", number, row_of[number]->name);
    printf("};\n");
}

static void print_table(void)
{
    static const char *const verdicts[] = {"allow", "EPERM", "ENOSYS", "EOPNOTSUPP", "kill", "ask"};
    printf("number\tname\tchecks");
    for (int variant = 0; variant < POLICY_VARIANTS; variant++)
        printf("\t%s", variant_names[variant]);
    printf("\n");
    for (int number = 0; number < NUMBERS; number++) {
        const struct policy_row *row = row_of[number];
        if (!row)
            continue;
        printf("%d\t%s\t%s", number, row->name, row->checks ? "yes" : "no");
        for (int variant = 0; variant < POLICY_VARIANTS; variant++)
            printf("\t%s", verdicts[row->verdict[variant]]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    rows_resolve();
    if (argc == 2 && strcmp(argv[1], "header") == 0)
        print_header();
    else if (argc == 2 && strcmp(argv[1], "table") == 0)
        print_table();
    else
        return 2;
    return fflush(stdout) == 0 ? 0 : 1;
}
