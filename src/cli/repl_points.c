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

void repl_keep_point(struct session *session, const char *name, struct context *context)
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
    snprintf(point->name, sizeof point->name, "%s", name);
    point->context = context;
    report_error(name[0] ? "kept as '%s'; :back %s returns here" : "kept; :back returns here", name, name);
}

struct context *repl_find_point(struct session *session, const char *name)
{
    for (size_t i = session->point_count; i-- > 0;)
        if (!name[0] || strcmp(session->points[i].name, name) == 0)
            return session->points[i].context;
    return NULL;
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
