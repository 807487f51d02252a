#include "unit/harness.h"

#include "base/clock.h"
#include "server/admission.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { MEGABYTE = 1 << 20 };

/* One run in a thread of its own: enters, notes its place in the order, stays, leaves. */
struct visitor {
    struct admission *admission;
    const struct tenant *tenant;
    struct admission_need need;
    int client_fd, stay_ms;
    pthread_t thread;
    int status, order;
    struct refusal refusal;
};

static atomic_int admitted;

static void *visit(void *data)
{
    struct visitor *visitor = data;
    struct admission_ticket ticket;
    visitor->status = admission_enter(visitor->admission, visitor->tenant, &visitor->need, visitor->client_fd,
                                      &ticket, &visitor->refusal);
    if (visitor->status < 0)
        return NULL;
    visitor->order = atomic_fetch_add(&admitted, 1);
    usleep((useconds_t)visitor->stay_ms * 1000);
    admission_leave(visitor->admission, &ticket, 0);
    return NULL;
}

static void visitor_start(struct visitor *visitor)
{
    assert_int_equal(pthread_create(&visitor->thread, NULL, visit, visitor), 0);
}

static void await_waiting(struct admission *admission, int64_t count)
{
    struct admission_state state;
    for (int i = 0; i < 2000; i++) {
        admission_get_state(admission, &state);
        if (state.waiting == count)
            return;
        usleep(1000);
    }
    fail_msg("%lld wait, not %lld", (long long)state.waiting, (long long)count);
}

struct house {
    struct tenants *tenants;
    const struct tenant *hog, *guest, *third;
    struct admission *admission;
};

/* Room for `slots` runs of a megabyte and one CPU. */
static void house_open(struct house *house, struct scratch *scratch, int slots, int64_t depth,
                       int64_t wait_ms)
{
    struct error err = {0};
    struct policy_server options = {.memory_bytes = (int64_t)slots * MEGABYTE,
                                    .millicpus = 1000000,
                                    .queue_depth = depth,
                                    .queue_wait_ms = wait_ms};
    assert_int_equal(tenants_open(scratch->fd, true, &house->tenants, &err), 0);
    house->hog = tenants_name(house->tenants, "hog");
    house->guest = tenants_name(house->tenants, "guest");
    house->third = tenants_name(house->tenants, "local"); /* without quotas */
    house->admission = admission_new(&options);
    assert_non_null(house->admission);
    atomic_store(&admitted, 0);
}

static void house_close(struct house *house)
{
    struct admission_state state;
    admission_get_state(house->admission, &state);
    assert_int_equal(state.memory_bytes, 0);
    assert_int_equal(state.millicpus, 0);
    assert_int_equal(state.running, 0);
    assert_int_equal(state.waiting, 0);
    admission_free(house->admission);
    tenants_close(house->tenants);
}

static struct visitor visitor_of(struct house *house, const struct tenant *tenant, int64_t megabytes,
                                 int stay_ms)
{
    return (struct visitor){.admission = house->admission,
                            .tenant = tenant,
                            .need = {.memory_bytes = megabytes * MEGABYTE, .millicpus = 1000},
                            .client_fd = -1,
                            .stay_ms = stay_ms,
                            .order = -1};
}

static void enter_now(struct house *house, const struct tenant *tenant, int64_t megabytes,
                      struct admission_ticket *ticket)
{
    struct admission_need need = {.memory_bytes = megabytes * MEGABYTE, .millicpus = 1000};
    struct refusal refusal;
    assert_int_equal(admission_enter(house->admission, tenant, &need, -1, ticket, &refusal), 0);
}

static void a_guest_is_served_after_one_run_of_the_hog(void **state)
{
    struct house house;
    house_open(&house, *state, 1, 100, 10000);
    struct admission_ticket first;
    enter_now(&house, house.third, 1, &first);
    struct visitor hog[12], guest[2];
    for (int i = 0; i < 12; i++) {
        hog[i] = visitor_of(&house, house.hog, 1, 5);
        visitor_start(&hog[i]);
        await_waiting(house.admission, i + 1);
    }
    for (int i = 0; i < 2; i++) {
        guest[i] = visitor_of(&house, house.guest, 1, 5);
        visitor_start(&guest[i]);
        await_waiting(house.admission, 13 + i);
    }
    admission_leave(house.admission, &first, 0);
    for (int i = 0; i < 12; i++)
        pthread_join(hog[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(guest[i].thread, NULL);
    assert_int_equal(guest[0].order, 1); /* hog, guest, hog, guest, hog, hog, … */
    assert_int_equal(guest[1].order, 3);
    for (int i = 1; i < 12; i++)
        assert_true(hog[i].order > hog[i - 1].order); /* first come, first served */
    house_close(&house);
}

static void lines_take_turns_under_constant_load(void **state)
{
    struct house house;
    house_open(&house, *state, 2, 1000, 20000);
    enum { EACH = 60 };
    struct visitor *hog = calloc(4 * EACH, sizeof *hog), *third = calloc(EACH, sizeof *third);
    struct admission_ticket gate[2];
    enter_now(&house, house.guest, 1, &gate[0]);
    enter_now(&house, house.guest, 1, &gate[1]);
    for (int i = 0; i < EACH; i++) { /* the quota of the hog is 16 at one time: he has no more in line */
        if (i < 16) {
            hog[i] = visitor_of(&house, house.hog, 1, 1);
            visitor_start(&hog[i]);
        }
        third[i] = visitor_of(&house, house.third, 1, 1);
        visitor_start(&third[i]);
    }
    await_waiting(house.admission, EACH + 16);
    admission_leave(house.admission, &gate[0], 0);
    admission_leave(house.admission, &gate[1], 0);
    int hog_last = 0;
    for (int i = 0; i < 16; i++) {
        pthread_join(hog[i].thread, NULL);
        hog_last = hog[i].order > hog_last ? hog[i].order : hog_last;
    }
    for (int i = 0; i < EACH; i++)
        pthread_join(third[i].thread, NULL);
    assert_in_range(hog_last, 28, 36); /* one of two, from the start: about the 32nd is his last */
    free(hog);
    free(third);
    house_close(&house);
}

static void quotas_refuse_with_429_before_anything_waits(void **state)
{
    struct house house;
    house_open(&house, *state, 100, 10, 1000);
    struct admission_ticket tickets[16], extra;
    for (int i = 0; i < 16; i++)
        enter_now(&house, house.hog, 1, &tickets[i]);
    struct admission_need need = {.memory_bytes = MEGABYTE, .millicpus = 1000};
    struct refusal refusal = {0};
    assert_int_equal(admission_enter(house.admission, house.hog, &need, -1, &extra, &refusal), -EBUSY);
    assert_int_equal(refusal.status, 429);
    assert_string_equal(refusal.field, "runs");
    enter_now(&house, house.guest, 1, &extra);
    admission_leave(house.admission, &extra, 0);
    for (int i = 0; i < 16; i++)
        admission_leave(house.admission, &tickets[i], 0);
    house_close(&house);
}

static void a_full_room_and_a_late_turn_answer_503(void **state)
{
    struct house house;
    house_open(&house, *state, 1, 1, 150);
    struct admission_ticket first, extra;
    enter_now(&house, house.hog, 1, &first);
    struct visitor waits = visitor_of(&house, house.guest, 1, 0);
    visitor_start(&waits);
    await_waiting(house.admission, 1);
    struct admission_need need = {.memory_bytes = MEGABYTE, .millicpus = 1000};
    struct refusal refusal = {0};
    assert_int_equal(admission_enter(house.admission, house.guest, &need, -1, &extra, &refusal), -EBUSY);
    assert_int_equal(refusal.status, 503);
    assert_string_equal(refusal.code, "overloaded");
    assert_true(refusal.retry_after_ms > 0);
    admission_leave(house.admission, &extra, 0); /* of a refused one: nothing */
    pthread_join(waits.thread, NULL);
    assert_int_equal(waits.status, -EBUSY);
    assert_int_equal(waits.refusal.status, 503);
    struct admission_state now;
    admission_get_state(house.admission, &now);
    assert_int_equal(now.refused_full, 1);
    assert_int_equal(now.refused_late, 1);
    admission_leave(house.admission, &first, 0);
    house_close(&house);
}

static void nobody_fills_the_room_for_others(void **state)
{
    struct house house;
    house_open(&house, *state, 1, 4, 10000);
    struct admission_ticket first;
    struct visitor hog[5], guest[3];
    enter_now(&house, house.third, 1, &first);
    for (int i = 0; i < 4; i++) {
        hog[i] = visitor_of(&house, house.hog, 1, 1);
        visitor_start(&hog[i]);
        await_waiting(house.admission, i + 1);
    }
    hog[4] = visitor_of(&house, house.hog, 1, 1);
    visit(&hog[4]);
    assert_int_equal(hog[4].status, -EBUSY);
    assert_int_equal(hog[4].refusal.status, 503);
    for (int i = 0; i < 2; i++) { /* half of four is the guest's */
        guest[i] = visitor_of(&house, house.guest, 1, 1);
        visitor_start(&guest[i]);
        await_waiting(house.admission, 5 + i);
    }
    guest[2] = visitor_of(&house, house.guest, 1, 1);
    visit(&guest[2]);
    assert_int_equal(guest[2].status, -EBUSY);
    admission_leave(house.admission, &first, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(hog[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(guest[i].thread, NULL);
    house_close(&house);
}

static void the_room_has_an_end_however_many_come(void **state)
{
    struct house house;
    house_open(&house, *state, 1, 2, 10000);
    enum { MANY = 6 };
    struct admission_ticket first;
    struct visitor visitors[MANY];
    enter_now(&house, house.third, 1, &first);
    for (int i = 0; i < MANY; i++) { /* each a tenant of his own */
        char name[16];
        snprintf(name, sizeof name, "tenant-%d", i);
        visitors[i] = visitor_of(&house, tenants_name(house.tenants, name), 1, 1);
        if (i < 4) {
            visitor_start(&visitors[i]);
            await_waiting(house.admission, i + 1);
        } else {
            visit(&visitors[i]);
            assert_int_equal(visitors[i].status, -EBUSY);
        }
    }
    admission_leave(house.admission, &first, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(visitors[i].thread, NULL);
    house_close(&house);
}

static void who_hangs_up_leaves_the_line(void **state)
{
    struct house house;
    house_open(&house, *state, 1, 10, 10000);
    struct admission_ticket first;
    enter_now(&house, house.hog, 1, &first);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct visitor waits = visitor_of(&house, house.guest, 1, 0);
    waits.client_fd = pair[0];
    visitor_start(&waits);
    await_waiting(house.admission, 1);
    close(pair[1]);
    pthread_join(waits.thread, NULL);
    assert_int_equal(waits.status, -ECANCELED);
    close(pair[0]);
    admission_leave(house.admission, &first, 0);
    house_close(&house);
}

static void more_than_the_machine_has_runs_alone(void **state)
{
    struct house house;
    house_open(&house, *state, 4, 10, 10000);
    struct admission_ticket big;
    enter_now(&house, house.third, 100, &big);
    struct visitor waits = visitor_of(&house, house.guest, 1, 0);
    visitor_start(&waits);
    await_waiting(house.admission, 1);
    admission_leave(house.admission, &big, 0);
    pthread_join(waits.thread, NULL);
    assert_int_equal(waits.status, 0);
    house_close(&house);
}

/* Small runs of two others come all the time, so that there is never room by itself. */
static void a_big_run_is_passed_only_so_often(void **state)
{
    struct house house;
    house_open(&house, *state, 4, 200, 20000);
    enum { SMALL = 64 };
    struct admission_ticket gate;
    enter_now(&house, house.guest, 1, &gate);
    struct visitor big = visitor_of(&house, house.hog, 4, 1), small[SMALL];
    visitor_start(&big);
    await_waiting(house.admission, 1);
    for (int i = 0; i < SMALL; i++) {
        small[i] = visitor_of(&house, house.third, 1, 2 + i % 5);
        visitor_start(&small[i]);
    }
    usleep(50000);
    admission_leave(house.admission, &gate, 0);
    pthread_join(big.thread, NULL);
    for (int i = 0; i < SMALL; i++)
        pthread_join(small[i].thread, NULL);
    assert_int_equal(big.status, 0);
    assert_in_range(big.order, 0, 20);
    house_close(&house);
}

static void cpus_are_a_budget_too(void **state)
{
    struct house house;
    house_open(&house, *state, 100, 10, 10000);
    struct admission_need all = {.memory_bytes = MEGABYTE, .millicpus = 1000000};
    struct admission_ticket first;
    struct refusal refusal;
    assert_int_equal(admission_enter(house.admission, house.third, &all, -1, &first, &refusal), 0);
    struct visitor waits = visitor_of(&house, house.guest, 1, 0);
    visitor_start(&waits);
    await_waiting(house.admission, 1);
    admission_leave(house.admission, &first, 0);
    pthread_join(waits.thread, NULL);
    assert_int_equal(waits.status, 0);
    house_close(&house);
}

static void what_live_boxes_hold_is_missing(void **state)
{
    struct house house;
    struct refusal refusal = {0};
    struct admission_ticket first;
    house_open(&house, *state, 2, 100, 10000);
    admission_note_held(house.admission, MEGABYTE);
    assert_true(admission_has_room(house.admission, &refusal));
    enter_now(&house, house.third, 1, &first);
    struct visitor second = visitor_of(&house, house.third, 1, 1);
    visitor_start(&second);
    await_waiting(house.admission, 1);
    admission_note_held(house.admission, 0);
    pthread_join(second.thread, NULL);
    assert_int_equal(second.status, 0);
    admission_leave(house.admission, &first, 0);

    admission_note_held(house.admission, 2 * MEGABYTE);
    assert_false(admission_has_room(house.admission, &refusal));
    assert_int_equal(refusal.status, 503);
    enter_now(&house, house.third, 1, &first); /* alone, for boxes that wait must not keep everybody out */
    admission_leave(house.admission, &first, 0);
    house_close(&house);
}

static void the_machine_gives_the_budget(void **state)
{
    (void)state;
    struct policy_server options = {.queue_depth = 1};
    struct admission *admission = admission_new(&options);
    struct admission_state now;
    admission_get_state(admission, &now);
    assert_true(now.memory_total_bytes > 16 * MEGABYTE);
    assert_true(now.millicpus_total >= 4000);
    admission_free(admission);
}

#define test(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_guest_is_served_after_one_run_of_the_hog),
        test(lines_take_turns_under_constant_load),
        test(quotas_refuse_with_429_before_anything_waits),
        test(a_full_room_and_a_late_turn_answer_503),
        test(nobody_fills_the_room_for_others),
        test(the_room_has_an_end_however_many_come),
        test(who_hangs_up_leaves_the_line),
        test(more_than_the_machine_has_runs_alone),
        test(a_big_run_is_passed_only_so_often),
        test(cpus_are_a_budget_too),
        test(what_live_boxes_hold_is_missing),
        test(the_machine_gives_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
