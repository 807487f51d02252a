/* One run of `POST /v1/run` on its way: sent to the keeper, watched, its result made ready for the client. */
#pragma once

#include "server/run_request.h"
#include "server/run_room.h"
#include "spec/result.h"

struct run_job {
    struct exchange *exchange;
    struct server *server;
    struct run_request request;
    struct run_room room;
    char id[IDENTIFIER_SIZE];
    int64_t started_us;
    int link_fd; /* the keeper's connection, until its answer is there */
    bool is_cancelled;
    bool is_kept;     /* files can be fetched later */
    bool has_uploads; /* of its own: linked into its room, where they stay when their names go */
    struct gate_pass *pass;
    /* The answer. */
    struct result *result; /* without files and texts */
    struct buffer json;    /* the whole, as the keeper wrote it */
};

/* Sends the run to the keeper; output goes to these (-1: only into the result). On a negative errno *err says
 * why. */
int run_job_start(struct run_job *job, int output_fd, int errors_fd, bool wants_progress, struct error *err);

/* Its files, opened for reading; one for each, -1 where it did not come to that. What is given in the request
 * is written into its room, which must be open. */
struct client_input;
int run_job_open_inputs(struct run_job *job, struct client_input *inputs, struct error *err);

/* The client has gone: the keeper ends the run, and still tells how. */
void run_job_cancel(struct run_job *job);

/* Something can be read from the keeper. 1: the result is there; 0: an event is, of this name, with data to
 * be freed; negative: *err says why there is none. */
int run_job_receive(struct run_job *job, const char **ret_event, json_t **ret_data, struct error *err);

/* The result for the client: with its id, and its files as they were asked for. */
int run_job_finish(struct run_job *job, struct buffer *ret, struct error *err);

/* The same as an object, to be freed. */
json_t *run_job_finish_object(struct run_job *job, struct error *err);

/* A path as a part of a URL. */
void run_append_encoded(struct buffer *into, const char *text);

/* The run is over, however: gives everything back and counts it. */
void run_job_close(struct run_job *job);
