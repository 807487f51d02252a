/* A run whose output is told as it comes, as server-sent events. */
#pragma once

#include "server/run_job.h"

/* Takes the job, which is not started yet, and answers. */
int run_stream_answer(struct run_job *takes);
