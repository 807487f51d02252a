#include "keeper/cpu_account.h"

#include "base/condition.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct cpu_bill {
    atomic_int users;
    _Atomic int64_t due_us;
};

struct cpu_account {
    struct cpu_bill *bill;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users;
    int64_t used_us, charged_us;
    bool has_begun, is_final;
};

struct cpu_bill *cpu_bill_new(void)
{
    struct cpu_bill *bill = calloc(1, sizeof *bill);
    if (bill)
        atomic_init(&bill->users, 1);
    return bill;
}

struct cpu_bill *cpu_bill_hold(struct cpu_bill *bill)
{
    if (bill)
        atomic_fetch_add(&bill->users, 1);
    return bill;
}

void cpu_bill_put(struct cpu_bill *bill)
{
    if (bill && atomic_fetch_sub(&bill->users, 1) == 1)
        free(bill);
}

int64_t cpu_bill_take_us(struct cpu_bill *bill)
{
    return bill ? atomic_exchange(&bill->due_us, 0) : 0;
}

struct cpu_account *cpu_account_new(struct cpu_bill *bill)
{
    struct cpu_account *account = calloc(1, sizeof *account);
    if (!account)
        return NULL;
    account->bill = cpu_bill_hold(bill);
    pthread_mutex_init(&account->lock, NULL);
    pthread_cond_init(&account->changed, NULL);
    account->users = 1;
    return account;
}

struct cpu_account *cpu_account_hold(struct cpu_account *account)
{
    if (!account)
        return NULL;
    pthread_mutex_lock(&account->lock);
    account->users++;
    pthread_mutex_unlock(&account->lock);
    return account;
}

void cpu_account_put(struct cpu_account *account)
{
    if (!account)
        return;
    pthread_mutex_lock(&account->lock);
    bool is_last = --account->users == 0;
    pthread_mutex_unlock(&account->lock);
    if (!is_last)
        return;
    cpu_account_settle(account);
    cpu_bill_put(account->bill);
    pthread_cond_destroy(&account->changed);
    pthread_mutex_destroy(&account->lock);
    free(account);
}

void cpu_account_begin(struct cpu_account *account, int64_t used_us)
{
    if (!account)
        return;
    pthread_mutex_lock(&account->lock);
    if (!account->has_begun)
        account->used_us = account->charged_us = used_us;
    account->has_begun = true;
    pthread_mutex_unlock(&account->lock);
}

void cpu_account_note(struct cpu_account *account, int64_t used_us, bool is_final)
{
    if (!account)
        return;
    pthread_mutex_lock(&account->lock);
    if (used_us > account->used_us)
        account->used_us = used_us;
    account->is_final |= is_final;
    pthread_cond_broadcast(&account->changed);
    pthread_mutex_unlock(&account->lock);
}

int64_t cpu_account_used_us(struct cpu_account *account, int64_t wait_ms)
{
    if (!account)
        return -1;
    int64_t until_us = clock_monotonic_us() + wait_ms * 1000;
    pthread_mutex_lock(&account->lock);
    for (int64_t left_us; !account->is_final && (left_us = until_us - clock_monotonic_us()) > 0;)
        clock_wait(&account->changed, &account->lock, left_us / 1000 + 1);
    int64_t used_us = wait_ms && !account->is_final ? -1 : account->used_us;
    pthread_mutex_unlock(&account->lock);
    return used_us;
}

int64_t cpu_account_charge_us(struct cpu_account *account)
{
    if (!account)
        return 0;
    pthread_mutex_lock(&account->lock);
    int64_t charge_us = account->has_begun ? account->used_us - account->charged_us : 0;
    account->charged_us = account->used_us;
    pthread_mutex_unlock(&account->lock);
    return charge_us;
}

void cpu_account_settle(struct cpu_account *account)
{
    if (account && account->bill)
        atomic_fetch_add(&account->bill->due_us, cpu_account_charge_us(account));
}
