/* Proofs that a layer is on, made from inside by the process that wears it: calls that a box may make and
 * survive. Raw system calls only, so that they can be made by init's child, which shares its memory, and by
 * an interpreter's copy (guest/fork), in which there is no C library of ours. Each returns NULL, or what is
 * wrong. */
#pragma once

const char *proof_of_seccomp(void);

/* Of the filter of a box without namespaces: a call that a zygote's own would let through. */
const char *proof_of_process_filter(void);

/* Without namespaces: a place that is open to everybody, and that the rules leave out. */
const char *proof_of_file_rules(const char *place);

/* Our parent is outside the scope, and must be out of reach. */
const char *proof_of_scope(void);

const char *proof_of_no_new_privs(void);
