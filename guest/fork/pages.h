/* The pages that every fork of a zygote uses, made ready ahead. */
#pragma once

/* Before the first fork: has a trial do what forks do, up to the end of a program that is heard nowhere. In
 * place of `channel` it has the first of `ends`, where its orders wait; the second is their other end. Both
 * are closed. True in the trial, which goes on as a fork does. In the zygote it has ended by then, and its
 * pages are known. */
__attribute__((visibility("hidden"))) int pages_try(const int *ends, int channel);

/* At the end of a program: does not return in a trial. */
__attribute__((visibility("hidden"))) void pages_end_trial(void);

/* Has them made ready now, in a fork. */
__attribute__((visibility("hidden"))) void pages_take(void);

/* As many of them as there is time for, until something comes over the channel. */
__attribute__((visibility("hidden"))) void pages_take_until_called(int channel);
