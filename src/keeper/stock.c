#include "keeper/stock.h"

enum {
    RATE_WINDOW_US = 1000 * 1000, /* over which arrivals are counted */
    HINT_US = 30 * 1000 * 1000,
    FORK_LEAD_MS = 100,
    START_LEAD_MS = 500,
};

void stock_init(struct stock *stock, const struct kind *kind, int minimum, int maximum, int64_t idle_ms)
{
    *stock = (struct stock){.kind = kind,
                            .minimum = minimum < maximum ? minimum : maximum,
                            .maximum = maximum,
                            .lead_ms = kind->is_forked ? FORK_LEAD_MS : START_LEAD_MS,
                            .idle_us = idle_ms * 1000};
}

int stock_target(const struct stock *stock, int64_t now_us)
{
    int target = stock->minimum;
    bool is_idle = !stock->last_run_us || now_us - stock->last_run_us > stock->idle_us;
    /* What is waited for here and in the queue, and one to spare for what is taken meanwhile. */
    int64_t demand =
        (int64_t)stock->rate * stock->lead_ms / 1000 + stock->waiting + stock->queued + (stock->rate > 0);
    if (!is_idle && demand > target)
        target = demand < stock->maximum ? (int)demand : stock->maximum;
    if (now_us < stock->hint_until_us && stock->minimum + stock->hint > target)
        target = stock->minimum + stock->hint;
    return target < stock->maximum ? target : stock->maximum;
}

void stock_count_arrival(struct stock *stock, int queued, int64_t now_us)
{
    stock->queued = queued;
    if (now_us - stock->window_started_us > RATE_WINDOW_US) {
        bool is_old = now_us - stock->window_started_us > 2 * RATE_WINDOW_US;
        stock->rate = is_old ? 0 : stock->arrivals;
        stock->arrivals = 0;
        stock->window_started_us = now_us;
    }
    stock->arrivals++;
    if (stock->arrivals > stock->rate)
        stock->rate = stock->arrivals;
    stock->last_run_us = now_us;
}

void stock_hint(struct stock *stock, int spares, int64_t now_us)
{
    stock->hint = spares;
    stock->hint_until_us = now_us + HINT_US;
}

void stock_put(struct stock *stock, struct spare *spare)
{
    spare->next = stock->spares;
    stock->spares = spare;
    stock->count++;
}

struct spare *stock_take(struct stock *stock)
{
    struct spare *spare = stock->spares;
    if (spare) {
        stock->spares = spare->next;
        stock->count--;
    }
    return spare;
}

struct spare *stock_take_if(struct stock *stock, bool (*is_meant)(const struct spare *spare, void *data),
                            void *data)
{
    for (struct spare **at = &stock->spares; *at; at = &(*at)->next)
        if (is_meant(*at, data)) {
            struct spare *found = *at;
            *at = found->next;
            stock->count--;
            return found;
        }
    return NULL;
}
