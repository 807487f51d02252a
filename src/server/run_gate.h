/* A one-shot run at the gate. */
#pragma once

struct run_job;

/* 0, or negative and the answer is set. */
int run_gate_enter(struct run_job *job);

/* It was refused after all, and did not run. */
struct error;
void run_gate_refuse(struct run_job *job, const struct error *err);

/* Its end, however it came; once more is fine. */
void run_gate_leave(struct run_job *job);
