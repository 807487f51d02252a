/* Points of a session: copies of its interpreter to come back to. */
#include "cli/repl.h"
#include "cli/report.h"

#include <stdio.h>
#include <string.h>

static void forget(struct session *session, size_t index)
{
    context_close(session->points[index].context);
    memmove(&session->points[index], &session->points[index + 1],
            (session->point_count - index - 1) * sizeof *session->points);
    session->point_count--;
}

/* Of a point, which waits for as long as there is something to come back for. */
static struct context_options asleep(const struct session *session)
{
    struct context_options options = session->wanted;
    options.idle_ms = options.lifetime_ms;
    return options;
}

static void add(struct session *session, const char *name, struct context *context)
{
    for (size_t i = 0; i < session->point_count; i++)
        if (strcmp(session->points[i].name, name) == 0) {
            forget(session, i); /* a name is for one point, the last */
            break;
        }
    if (session->point_count == REPL_POINTS_MAX) {
        report_error("%d points are kept already: the oldest goes", REPL_POINTS_MAX);
        forget(session, 0);
    }
    struct repl_point *point = &session->points[session->point_count++];
    *point = (struct repl_point){.context = context};
    snprintf(point->name, sizeof point->name, "%s", name);
    report_error(name[0] ? "kept as '%s'; :back %s returns here" : "kept; :back returns here", name, name);
}

void repl_keep_point(struct session *session, const char *name)
{
    const struct context_options options = asleep(session);
    struct context *context = NULL;
    struct error err = {0};
    if (context_fork_point(session->context, &options, &context, &err) < 0)
        report_error("%s", err.text);
    else
        add(session, name, context);
}

struct repl_point *repl_find_point(struct session *session, const char *name)
{
    for (size_t i = session->point_count; i-- > 0;)
        if (!name[0] || strcmp(session->points[i].name, name) == 0)
            return &session->points[i];
    return NULL;
}

/* Generations of forks are few. So the first time it is the point itself that goes on, and a copy takes its
 * place: who keeps one and goes back, again and again, uses one each time, and not two. */
int repl_go_back(struct session *session, struct repl_point *point, struct error *err)
{
    const struct context_options options = asleep(session);
    struct context *fresh = NULL, *copy = NULL;
    int status = 0;
    if (!point->was_used && context_fork_point(point->context, &options, &copy, NULL) == 0) {
        fresh = point->context;
        point->context = copy;
        context_set_idle(fresh, session->wanted.idle_ms);
    } else {
        status = context_fork(point->context, &session->wanted, &fresh, err);
    }
    if (status < 0)
        return status;
    point->was_used = true;
    repl_exchange(session, fresh);
    return 0;
}

bool repl_return(struct session *session)
{
    while (session->point_count) {
        struct repl_point *newest = &session->points[session->point_count - 1];
        struct error err = {0};
        if (repl_go_back(session, newest, &err) == 0) {
            report_error(newest->name[0] ? "back at the point '%s'; :restart starts anew"
                                         : "back at the point that was kept last; :restart starts anew",
                         newest->name);
            return true;
        }
        report_error("%s", err.text);
        forget(session, session->point_count - 1);
    }
    return false;
}

void repl_forget_points(struct session *session)
{
    while (session->point_count)
        forget(session, session->point_count - 1);
}

void repl_exchange(struct session *session, struct context *fresh)
{
    pthread_mutex_lock(&session->context_lock);
    struct context *former = session->context;
    session->context = fresh;
    pthread_mutex_unlock(&session->context_lock);
    struct error err = {0};
    context_collect_into(former, -1, &err); /* its files are not the session's any more */
    if (context_collect_into(fresh, session->output_fd, &err) < 0)
        report_error("%s", err.text);
    if (former != session->first)
        context_close(former);
}
