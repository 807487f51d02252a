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

struct program {
    struct sock_filter code[PROGRAM_MAX];
    size_t length;
};

static void emit(struct program *program, uint16_t code, uint8_t jump_true, uint8_t jump_false, uint32_t k)
{
    if (program->length == PROGRAM_MAX)
        abort();
    program->code[program->length++] = (struct sock_filter){code, jump_true, jump_false, k};
}

static void emit_return(struct program *program, enum policy_verdict verdict)
{
    emit(program, BPF_RET | BPF_K, 0, 0, verdict_value(verdict));
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

static void emit_condition(struct program *program, const struct policy_condition *condition, uint8_t skip)
{
    emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0,
         (uint32_t)(offsetof(struct seccomp_data, args) + 8U * condition->argument));
    if (condition->any_set) {
        emit(program, BPF_JMP | BPF_JSET | BPF_K, 0, skip, condition->mask);
        return;
    }
    emit(program, BPF_ALU | BPF_AND | BPF_K, 0, 0, condition->mask);
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, skip, condition->value);
}

static void emit_check(struct program *program, const struct policy_check *check)
{
    size_t length[2] = {0};
    for (int i = 0; i < check->conditions; i++)
        length[i] = check->condition[i].any_set ? 2 : 3;
    for (int i = 0; i < check->conditions; i++) {
        size_t behind = 1; /* the return */
        for (int later = i + 1; later < check->conditions; later++)
            behind += length[later];
        emit_condition(program, &check->condition[i], (uint8_t)behind);
    }
    emit_return(program, check->verdict);
}

/* All numbers of [first, last] get the same treatment: a plain verdict, or one row with checks. */
static void emit_leaf(struct program *program, int first, enum policy_variant variant)
{
    const struct policy_row *row = row_of[first];
    for (int i = 0; row && i < row->checks; i++)
        if (check_applies(&row->check[i], variant))
            emit_check(program, &row->check[i]);
    emit_return(program, plain_verdict(first, variant));
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

/* The left half follows its comparison; the right half is reached by a jump of at most 255 instructions, or,
 * where it lies further away, through BPF_JA. The size of the left half is known after laying it out, so it
 * is laid out once for measuring. */
static void emit_search(struct program *program, const struct range *ranges, size_t count,
                        enum policy_variant variant)
{
    if (count == 1) {
        emit_leaf(program, ranges[0].first, variant);
        return;
    }
    size_t middle = count / 2;
    size_t start = program->length;
    emit_search(program, ranges, middle, variant);
    size_t left_length = program->length - start;
    program->length = start;
    if (left_length <= 255) {
        emit(program, BPF_JMP | BPF_JGE | BPF_K, (uint8_t)left_length, 0, (uint32_t)ranges[middle].first);
    } else {
        emit(program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, (uint32_t)ranges[middle].first);
        emit(program, BPF_JMP | BPF_JA, 0, 0, (uint32_t)left_length);
    }
    emit_search(program, ranges, middle, variant);
    emit_search(program, ranges + middle, count - middle, variant);
}

static void program_make(struct program *program, enum policy_variant variant)
{
    static struct range ranges[NUMBERS];
    size_t count = ranges_find(ranges, variant);
    program->length = 0;
    emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    emit(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    emit_return(program, VERDICT_ENOSYS);
    emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    /* Also everything past the table, and with it the x32 bit. */
    emit(program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, NUMBERS);
    emit_return(program, VERDICT_ENOSYS);
    emit_search(program, ranges, count, variant);
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
        for (size_t i = 0; i < program.length; i++)
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
